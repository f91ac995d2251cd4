"""CloudFormation for the resource types in this library's assemblies, and Lambda functions of custom resources."""
