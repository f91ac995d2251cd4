"""YAML as the programs read it that take what is judged: kubectl, helm and eksctl one way, CloudFormation another."""
