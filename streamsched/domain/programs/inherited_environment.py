"""Which variables of its launcher a program gets: a list of names, as `STREAMSCHED_PROGRAM_ENVIRONMENT` has it."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.programs.secret import OWN
from streamsched.domain.programs.secret_rules import SecretRule, without_secrets

#: What is passed where nothing else is set: how programs are found and speak, Java, Spark and Hadoop, proxies and
#: certificates. No place of credentials.
DEFAULT: Final = (
    "PATH,HOME,USER,LOGNAME,SHELL,TZ,LANG,LANGUAGE,LC_*,TMPDIR,PYTHONPATH,PYTHONDONTWRITEBYTECODE,VIRTUAL_ENV,"
    "LD_LIBRARY_PATH,JAVA_HOME,SPARK_HOME,SPARK_CONF_DIR,SPARK_LOCAL_*,PYSPARK_PYTHON,PYSPARK_DRIVER_PYTHON,"
    "HADOOP_HOME,HADOOP_CONF_DIR,YARN_CONF_DIR,KRB5_CONFIG,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,ALL_PROXY,"
    "http_proxy,https_proxy,no_proxy,all_proxy,SSL_CERT_FILE,SSL_CERT_DIR,REQUESTS_CA_BUNDLE,CURL_CA_BUNDLE"
)
#: Every variable, as `dev` passes those of its caller.
ALL: Final = "*"
_NAME: Final = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]*", re.ASCII)
#: Shorter names are words of any text.
_SHORTEST: Final = 3
#: Most names that a reason lists.
_LISTED: Final = 5


def parse_names(text: str) -> Sequence[str]:
    """The names of a comma-separated text; `*` stands for any characters.

    Raises:
        InvalidDefinitionError: one is no name of a variable, or of the installation itself.
    """
    names = tuple(each.strip() for each in text.split(",") if each.strip())
    for each in names:
        if not _NAME.fullmatch(each):
            raise InvalidDefinitionError("$", f"must be names of variables such as PATH,LC_* but has '{each}'")
        if each.startswith(OWN):
            raise InvalidDefinitionError("$", f"has '{each}': programs get no variables of the installation itself")
    return names


class InheritedEnvironment:
    """The variables of a launcher, divided.

    Attributes:
        passed: what programs get: those of the list, neither the installation's own nor secrets.
        withheld: the names of the others, in order, without the installation's own and secrets.
    """

    def __init__(self, environ: Mapping[str, str], names: Iterable[str], rules: Iterable[SecretRule] = ()) -> None:
        patterns = tuple(names)
        permitted = without_secrets(environ, rules)
        self.passed = {
            name: value for name, value in permitted.items() if any(fnmatchcase(name, pattern) for pattern in patterns)
        }
        self.withheld = tuple(sorted(permitted.keys() - self.passed.keys()))


def environment_hint(withheld: Iterable[str], given: Container[str], texts: Iterable[str]) -> str:
    """A sentence about the variables that a failed program names and was not passed; empty without any.

    Args:
        withheld: names of the launcher's variables that programs do not get.
        given: names of those that it had from elsewhere.
        texts: what it printed, and its command.
    """
    words = {word for text in texts for word in re.findall(r"\w+", text, re.ASCII)}
    found = [name for name in withheld if len(name) >= _SHORTEST and name in words and name not in given]
    if not found:
        return ""
    listed = ", ".join(found[:_LISTED]) + (" …" if len(found) > _LISTED else "")
    verb = "are variables" if len(found) > 1 else "is a variable"
    return f"{listed} {verb} of the launcher that programs do not get (STREAMSCHED_PROGRAM_ENVIRONMENT)"
