from gpu_constructs.exposure.exposure import Internal as Internal
from gpu_constructs.exposure.exposure import Public as Public
from gpu_constructs.exposure.load_balancer_controller import LoadBalancerController as LoadBalancerController
