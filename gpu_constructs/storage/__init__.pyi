from gpu_constructs.storage.ebs_csi_driver import EbsCsiDriver as EbsCsiDriver
from gpu_constructs.storage.ebs_storage_class import EbsStorageClass as EbsStorageClass
from gpu_constructs.storage.fsx_csi_driver import FsxCsiDriver as FsxCsiDriver
from gpu_constructs.storage.gp3 import Gp3 as Gp3
from gpu_constructs.storage.s3_csi_driver import S3CsiDriver as S3CsiDriver
from gpu_constructs.storage.s3_mount import S3Mount as S3Mount
from gpu_constructs.storage.s3_volume import S3Volume as S3Volume
