from gpu_constructs.devices.device_plugin import DevicePlugin as DevicePlugin
from gpu_constructs.devices.device_plugin import EfaDevicePlugin as EfaDevicePlugin
from gpu_constructs.devices.dra_driver import DraDriver as DraDriver
from gpu_constructs.devices.dra_driver import SharedGpuClaim as SharedGpuClaim
from gpu_constructs.devices.gpu_operator import GpuOperator as GpuOperator
