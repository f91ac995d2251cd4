"""CloudFormation for the types that this library's assemblies contain, and the functions of custom resources."""
