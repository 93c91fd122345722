//! The Python package: builds the wheel, installs it into a virtual environment, runs pytest.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{cargo, root, run};

/// Builds the wheel with the artifacts of `cargo test`, and tests it. Returns false if the packages that the
/// tests need can be neither fetched nor found.
pub(crate) fn test() -> Result<bool> {
    let folder = target().join("python");
    let python = match virtual_environment(&folder, "requirements.txt") {
        Ok(python) => python,
        Err(error) => {
            println!("{error:#}");
            return Ok(false);
        }
    };
    let wheel = build_wheel(&python, &folder)?;
    install(&python, &wheel)?;
    let mut settings = vec![];
    if std::env::var_os("OCTILE_TOOLS").is_none() {
        // Where the tests of the command keep libtpu.
        settings.push(("OCTILE_TOOLS", target().join("tmp/octile-tools")));
    }
    pytest(&python, "python/tests", &settings)?;
    pytest(&python, "python/tests/standin", &[("OCTILE_STANDIN_DRIVER", standin_driver()?)])?;
    Ok(true)
}

/// Tests the PyTorch layers, with a Python that has PyTorch and what `python/tests/requirements.txt` lists,
/// or one made for it.
pub(crate) fn test_torch(python: Option<PathBuf>) -> Result<()> {
    let folder = target().join("python-torch");
    let python = match python {
        Some(python) => python,
        None => virtual_environment(&folder, "requirements-torch.txt")?,
    };
    let path = ("PYTHONPATH", install_beside(&python, &folder)?);
    pytest(&python, "python/tests/pytorch", std::slice::from_ref(&path))?;
    pytest(&python, "python/tests/standin", &[path, ("OCTILE_STANDIN_DRIVER", standin_driver()?)])
}

/// Tests the plugin for vLLM with a Python that has vLLM.
pub(crate) fn test_vllm(python: &Path) -> Result<()> {
    let site = install_beside(python, &target().join("python-vllm"))?;
    pytest(python, "python/tests/vllm", &[("PYTHONPATH", site)])
}

fn pytest(python: &Path, tests: &str, settings: &[(&str, PathBuf)]) -> Result<()> {
    println!("== pytest {tests}");
    run(Command::new(python)
        .args(["-m", "pytest", "--quiet", tests])
        .envs(settings.iter().map(|(name, value)| (name, value)))
        // oneDNN's AMX kernels trap on some virtual machines.
        .env("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"))
}

/// Builds the wheel and installs it beside the environment, which may belong to somebody else.
fn install_beside(python: &Path, folder: &Path) -> Result<PathBuf> {
    let wheel = build_wheel(python, folder)?;
    let site = folder.join("site");
    if site.exists() {
        fs::remove_dir_all(&site).with_context(|| format!("cannot remove {}", site.display()))?;
    }
    let install = ["-m", "pip", "install", "--quiet", "--no-deps", "--target"];
    run(Command::new(python).args(install).arg(&site).arg(&wheel))?;
    Ok(site)
}

/// Builds the library that tests load in place of the CUDA driver.
fn standin_driver() -> Result<PathBuf> {
    cargo(&["build", "--package", "octile-standin-driver"])?;
    Ok(target().join("debug/liboctile_standin_driver.so"))
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Makes a virtual environment with the packages of a file in `python/tests`, once for each content of it.
fn virtual_environment(folder: &Path, requirements: &str) -> Result<PathBuf> {
    let requirements = root().join("python/tests").join(requirements);
    let wanted = fs::read_to_string(&requirements)?;
    let (python, installed) = (folder.join("venv/bin/python"), folder.join("installed.txt"));
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    println!("== virtual environment {}", folder.join("venv").display());
    run(Command::new("python3").args(["-I", "-m", "venv"]).arg(folder.join("venv")))?;
    let install = ["-I", "-m", "pip", "install", "--quiet", "--requirement"];
    run(Command::new(&python).args(install).arg(&requirements))?;
    fs::write(&installed, wanted)?;
    Ok(python)
}

fn build_wheel(python: &Path, folder: &Path) -> Result<PathBuf> {
    let wheels = folder.join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels).with_context(|| format!("cannot remove {}", wheels.display()))?;
    }
    println!("== maturin build --profile dev");
    run(Command::new(python)
        .args(["-m", "maturin", "build", "--profile", "dev", "--out"])
        .arg(&wheels)
        .arg("--interpreter")
        .arg(python)
        .env("CARGO", env!("CARGO")))?;
    let mut found = fs::read_dir(&wheels)?.filter_map(|entry| Some(entry.ok()?.path()));
    found.find(|path| path.extension().is_some_and(|e| e == "whl")).context("maturin wrote no wheel")
}

fn install(python: &Path, wheel: &Path) -> Result<()> {
    let install = ["-I", "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"];
    run(Command::new(python).args(install).arg(wheel))
}
