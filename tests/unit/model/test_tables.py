"""Where tables are, and what the catalog calls them."""

import pytest

from eventlake.errors import InvalidSettings
from eventlake.model.layout import DEFAULT_LAYOUT, Layout
from eventlake.model.naming import Call, Naming
from eventlake.model.schema import new_table
from eventlake.model.settings import source_settings
from eventlake.model.tables import catalog_name, table_path

PAGE = new_table("page", Call.PAGE, Naming.SEGMENT)


def test_a_table_has_the_place_and_the_name_that_follow_from_the_settings() -> None:
    settings = source_settings(source="web", source_id="src1", table_prefix="px")
    assert table_path(DEFAULT_LAYOUT, settings, PAGE) == "segment-data/data/src1/segment_type=page"
    assert table_path(Layout(data="staging"), settings, PAGE) == "staging/src1/segment_type=page"
    assert catalog_name(settings, PAGE) == "px_page"
    older = source_settings(source="web", data_folder="segment-data-lake/data")
    path = table_path(DEFAULT_LAYOUT, older, PAGE)
    assert path == "segment-data-lake/data/web/segment_type=page"


def test_an_adopted_table_has_its_own() -> None:
    settings = source_settings(source="web", table_prefix="px", data_folder="other")
    own = PAGE.model_copy(update={"location": "old/pages", "catalog_name": "pages_partitioned"})
    assert table_path(DEFAULT_LAYOUT, settings, own) == "old/pages"
    assert catalog_name(settings, own) == "pages_partitioned"


def test_columns_are_named_as_tables_unless_set() -> None:
    assert source_settings(source="web", naming="native").columns is Naming.NATIVE
    assert source_settings(source="web", column_naming="native").columns is Naming.NATIVE
    assert source_settings(source="web", column_naming="native").naming is Naming.SEGMENT


@pytest.mark.parametrize("path", ["/data", "data/", "../data", "a//b", "a b"])
def test_a_data_folder_is_a_path_in_the_lake(path: str) -> None:
    with pytest.raises(InvalidSettings, match=r"data_folder is .*: a path in the lake such as"):
        source_settings(source="web", data_folder=path)
