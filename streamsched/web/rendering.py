"""Templates and static files. Autoescape is on for every template."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from streamsched import __version__
from streamsched.web.navigation import PLACES
from streamsched.web.views import facts, names, states, strips
from streamsched.web.views.times import coarse_words
from streamsched.web.visit import Visit

#: Static files by name, with their types.
FILES: Final[Mapping[str, str]] = MappingProxyType(
    {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
)


class StaticFile:
    """A file that browsers may keep: its address changes with its content."""

    def __init__(self, name: str, media_type: str) -> None:
        self.content = files("streamsched.web").joinpath("static", name).read_bytes()
        self.href = f"/ui/static/{name}?v={sha256(self.content).hexdigest()[:12]}"
        self._media_type = media_type

    def answer(self) -> Response:
        """The file, which a browser may keep for a year."""
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(self.content, media_type=self._media_type, headers=headers)


class Renderer:
    """Renders pages."""

    def __init__(self) -> None:
        self.files = {name: StaticFile(name, media_type) for name, media_type in FILES.items()}
        self._environment = Environment(
            loader=PackageLoader("streamsched.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(
            places=PLACES,
            version=__version__,
            asset={name: file.href for name, file in self.files.items()},
            schedule_href=names.schedule_href,
            job_href=names.job_href,
            run_href=names.run_href,
            dataset_href=names.dataset_href,
            backfill_href=names.backfill_href,
            queue_href=names.queue_href,
            webhook_href=names.webhook_href,
            expectation_href=names.expectation_href,
            expectation_word=states.expectation_word,
            app_graph_href=names.app_graph_href,
            bar=strips.bar,
            run_word=states.RUN_WORDS,
            job_word=states.job_word,
            schedule_word=states.SCHEDULE_WORDS,
        )
        self._environment.filters.update(
            short=names.short_name,
            shortened=names.shorten,
            clipped=names.clip,
            capitalised=names.capitalise,
            size=facts.size_words,
            span=coarse_words,
            seconds=lambda number: coarse_words(timedelta(seconds=number)),
            action=names.action_words,
            count="{:,}".format,
        )

    def html(self, template: str, *, code: int = 200, **context: Any) -> Response:
        """A page without a visit: of the login, or of an error before one."""
        return HTMLResponse(self._text(template, context), code)

    def page(self, visit: Visit, template: str, *, code: int = 200, **context: Any) -> Response:
        """A page for a visit. `t` are its time texts. It has no links to pages that would be refused."""
        text = self._text(template, {"visit": visit, "t": visit.times, "theme": visit.theme, **context})
        return HTMLResponse(visit.access.without_refused_links(text, visit.caller), code)

    def _text(self, template: str, context: Mapping[str, Any]) -> str:
        return self._environment.get_template(template).render(**context)
