"""Every test here may ask for a container of its own, and for an Azure that refuses."""

from tests.azure.azurite import azure
from tests.azure.refusing import refusing

__all__ = ["azure", "refusing"]
