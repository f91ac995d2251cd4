from gpu_facts.hardware.capability import find_instance_types as find_instance_types
from gpu_facts.hardware.catalogue import InstanceType as InstanceType
from gpu_facts.hardware.catalogue import instance_type as instance_type
