# SPDX-License-Identifier: Apache-2.0
"""A route as a page: the verdict, the way on a map, the hops. One file, no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netdiag.render import Options
from netdiag.render.html import page_environment
from netdiag.render.route_shown import picture
from netdiag.render.route_table import headline, loss, ms, why

__all__ = ["render"]

_TEMPLATE = "route.html.j2"


def render(document: Mapping[str, Any], options: Options) -> str:  # noqa: ARG001 - the one signature of renderers
    """Return the whole page."""
    word, sentence, style = headline(document)
    environment = page_environment()
    environment.filters |= {"ms1": ms, "loss": loss}
    environment.globals |= {"why": why}
    verdict = {"word": word, "sentence": sentence, "style": style}
    page: str = environment.get_template(_TEMPLATE).render(document=document, verdict=verdict, map=picture(document))
    return page
