from gpu_constructs.storage.ebs_csi_driver import EbsCsiDriver as EbsCsiDriver
from gpu_constructs.storage.ebs_storage_class import EbsStorageClass as EbsStorageClass
from gpu_constructs.storage.gp3 import Gp3 as Gp3
