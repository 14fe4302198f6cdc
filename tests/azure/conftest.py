"""Every test here may ask for a container, for an Azure that refuses, and for metastores."""

from tests.aws.worlds import world
from tests.azure.azurite import azure
from tests.azure.metastores import hive, hive_4, mariadb, private
from tests.azure.proxy import proxy, tls_proxy
from tests.azure.refusing import refusing

__all__ = [
    "azure",
    "hive",
    "hive_4",
    "mariadb",
    "private",
    "proxy",
    "refusing",
    "tls_proxy",
    "world",
]
