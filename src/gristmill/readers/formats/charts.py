"""Charts of Office documents: title, titles of the axes, and the values as a table with a row for each category.

| Sales by year | Rye | Wheat |
| --- | --- | --- |
| 2024 | 12 | 30 |
"""

from typing import Any

from gristmill.readers.formats.ooxml import A, drawing_paragraph, local_name
from gristmill.readers.markdown_tables import markdown_table

_MAX_POINTS = 500  # of a series
_MAX_SERIES = 50


def chart_markdown(tree: Any) -> str:
    """The chart of a part `chartN.xml`, or of Excel's newer kinds."""
    title = _title(next(tree.iter("{*}chart"), tree))
    axes = [
        text
        for axis in tree.iter("{*}valAx", "{*}catAx", "{*}dateAx", "{*}serAx", "{*}axis")
        if (text := _title(axis))
    ]
    series = list(tree.iter("{*}ser", "{*}series"))[:_MAX_SERIES]
    names = [_cell_values(node.find("{*}tx")) or f"{place}" for place, node in enumerate(series, 1)]
    columns = [_points(node, ("val", "yVal", "bubbleSize")) for node in series]
    categories: dict[int, str] = {}
    for node in series:
        categories = _points(node, ("cat", "xVal")) | categories
    if not any(columns) and (data := _newer_data(tree)):
        categories, columns = data
        names = names or [""] * len(columns)
    places = sorted({place for column in columns for place in column} | set(categories))[:_MAX_POINTS]
    rows = [[categories.get(place, ""), *(column.get(place, "") for column in columns)] for place in places]
    head = [title, *names[: len(columns)]]
    blocks = [title] if title and not rows else []
    blocks += [" · ".join(axes)] if axes else []
    if rows:
        blocks.append(markdown_table([head, *rows]).rstrip())
    labels = [text for label in tree.iter("{*}dLbl", "{*}userShapes") for text in _texts(label)]
    return "\n\n".join([*blocks, *labels])


def _title(node: Any) -> str:
    title = node.find("{*}title")
    return " ".join(_texts(title)) if title is not None else ""


def _texts(node: Any) -> list[str]:
    """The texts that are written there, or come from a cell."""
    texts = [text for paragraph in node.iter(f"{A}p") if (text := drawing_paragraph(paragraph))]
    return texts or ([text] if (text := _cell_values(node)) else [])


def _cell_values(node: Any) -> str:
    return (
        " ".join(value.text.strip() for value in node.iter("{*}v") if value.text) if node is not None else ""
    )


def _points(series: Any, names: tuple[str, ...]) -> dict[int, str]:
    """The points of a series by their index."""
    for name in names:
        data = series.find(f"{{*}}{name}")
        if data is None:
            continue
        points: dict[int, str] = {}
        levels = data.findall(".//{*}lvl") or [data]
        for level in reversed(levels):  # the outermost level of the categories is the last
            for point in level.iter("{*}pt"):
                index, text = point.get("idx", ""), _cell_values(point)
                if index.isdigit() and len(points) < _MAX_POINTS:
                    place = int(index)
                    points[place] = f"{points[place]} {text}" if place in points else text
        return points
    return {}


def _newer_data(tree: Any) -> tuple[dict[int, str], list[dict[int, str]]] | None:
    """Categories and values of the newer kinds of charts, which keep them apart from the series."""
    categories: dict[int, str] = {}
    columns: list[dict[int, str]] = []
    for dimension in tree.iter("{*}strDim", "{*}numDim"):
        points = {
            int(point.get("idx", "0")): point.text or ""
            for point in dimension.iter("{*}pt")
            if point.get("idx", "").isdigit()
        }
        if local_name(dimension) == "strDim":
            categories = points | categories
        elif points:
            columns.append(points)
    return (categories, columns) if columns else None
