"""What is released: one version, locked sources of public registries alone, all parts inside."""

import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from tests.rules.sources import ROOT, files, text

INDEX = "registry+https://github.com/rust-lang/crates.io-index"
"""How Cargo names the public registry, whatever mirror the crates came from."""


def test_the_lock_file_names_the_public_registry_alone() -> None:
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    sources = {package.get("source", INDEX) for package in lock["package"]}
    assert sources == {INDEX}


@pytest.mark.parametrize(
    "name", ["*.lock", "*requirements*.txt", "pip.conf", ".cargo/config*", "pyproject.toml"]
)
def test_no_file_records_where_packages_came_from(name: str) -> None:
    for path in ROOT.glob(name):
        addresses = set(re.findall(r"https?://[^\s\"']+", path.read_text()))
        assert addresses <= {INDEX.removeprefix("registry+")}, f"{path.name}: {addresses}"


def test_all_parts_have_the_one_version_of_the_workspace() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project.get("version") is None
    assert "version" in project["dynamic"], "maturin takes it from Cargo.toml"
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    for path in (ROOT / "Cargo.toml").parent.glob("crates/*/Cargo.toml"):
        package = tomllib.loads(path.read_text())["package"]
        assert package["version"] == {"workspace": True}, path
        (locked,) = (entry for entry in lock if entry["name"] == package["name"])
        assert locked["version"] == workspace["version"]


def test_what_the_native_module_embeds_lies_in_its_crate() -> None:
    """Else the source distribution does not build."""
    for path in files(".rs", "crates"):
        crate = ROOT / path.parts[0] / path.parts[1]
        for name in re.findall(r'include_(?:str|bytes)!\(\s*"([^"]+)"', text(path)):
            target = (ROOT / path).parent.joinpath(name).resolve()
            assert target.is_relative_to(crate), f"{path}: {name}"
            assert target.is_file(), f"{path}: {name}"


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "src/tidegate/py.typed").is_file()
    native = ROOT / "src/tidegate/_native.pyi"
    assert native.is_file()
    assert native.read_text().count("\n") < 400


def test_base_dependencies_are_what_policy_files_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=!~ \[]", line)[0].lower() for line in project["dependencies"]}
    assert names == {"pydantic", "pyyaml", "tzdata"}
    assert all("<" in line for line in project["dependencies"]), "ranges are pinned"


def test_the_source_distribution_holds_all_that_it_is_built_from(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "maturin", "sdist", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    wanted = {
        str(path)
        for path in (
            *files(".py", "src"),
            *files(".pyi", "src"),
            *files("py.typed", "src"),
            *files(".lua", "crates"),
            *files(".rs", "crates"),
        )
        if "tests" not in path.parts
    }
    assert wanted <= inside
    assert {"Cargo.lock", "LICENSE", "README.md"} <= inside
    assert not [name for name in inside if name.endswith((".so", ".pyc")) or name[:1] == "."]
