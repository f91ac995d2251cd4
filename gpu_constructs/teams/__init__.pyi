from gpu_constructs.teams.doctor_access import DoctorAccess as DoctorAccess
from gpu_constructs.teams.team import Team as Team
from gpu_constructs.teams.team_quota import TeamQuota as TeamQuota
