//! Fetching a tool: `pip` downloads the wheel, `zipfile` unpacks it, a rename puts it in place.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{Tool, Version};

/// A tool that can be used now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Which tool.
    pub tool: &'static Tool,
    /// Its version.
    pub version: Version,
    /// The file.
    pub path: PathBuf,
    /// Whether it was fetched just now, or was there before.
    pub fetched: bool,
}

/// Puts a tool into `folder`, unless a version that fits is there. Nothing half-written remains on failure: all work
/// is done in a temporary folder beside the final one.
pub fn install(tool: &'static Tool, folder: &Path) -> Result<Installed> {
    if let Some(installed) = already_there(tool, folder) {
        return Ok(installed);
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let work =
        tempfile::tempdir_in(folder).with_context(|| format!("cannot write to {}", folder.display()))?;
    let wheel = download(tool, work.path())?;
    let unpacked = work.path().join("unpacked");
    python(
        "unpack the wheel",
        [OsStr::new("-m"), "zipfile".as_ref(), "-e".as_ref(), wheel.as_ref(), unpacked.as_ref()],
    )?;
    let version = wheel_version(tool, &wheel)?;
    let file = unpacked.join(tool.file);
    if !file.is_file() {
        bail!("the wheel of {} {version} does not hold {}", tool.distribution, tool.file);
    }
    if tool.program {
        make_executable(&file)?;
    }
    let place = folder.join(format!("{}-{version}", tool.distribution));
    if let Err(error) = fs::rename(&unpacked, &place) {
        // Somebody else may have been faster.
        let other = already_there(tool, folder);
        return other.with_context(|| format!("cannot move the wheel to {}: {error}", place.display()));
    }
    Ok(Installed { tool, version, path: place.join(tool.file), fetched: true })
}

fn already_there(tool: &'static Tool, folder: &Path) -> Option<Installed> {
    let places = super::Places { installed: Some(folder.to_owned()), ..Default::default() };
    let found = tool.find(&places).ok()?;
    let version = found.version.filter(|version| *version < tool.below)?;
    Some(Installed { tool, version, path: found.path, fetched: false })
}

fn download(tool: &Tool, folder: &Path) -> Result<PathBuf> {
    let requirement = format!("{}>={},<{}", tool.distribution, tool.oldest, tool.below);
    let what = format!("download {requirement}");
    let arguments = ["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet", "--dest"];
    let arguments = arguments.into_iter().map(OsStr::new).chain([folder.as_os_str(), requirement.as_ref()]);
    python(&what, arguments).context("pip needs a network and a package index that has the wheel")?;
    let wheels = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let wheel = wheels.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).last();
    wheel.with_context(|| format!("pip said that it did {what}, but left no wheel"))
}

/// Runs `python3`, and repeats its last line when it fails.
fn python<'a>(what: &str, arguments: impl IntoIterator<Item = &'a OsStr>) -> Result<()> {
    let output = Command::new("python3")
        .args(arguments)
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .output()
        .with_context(|| format!("cannot {what}: python3 does not run"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("python3 gave no reason");
    bail!("cannot {what}: {}", last.trim())
}

/// The version in a wheel's name: `DISTRIBUTION-VERSION-TAGS.whl`.
fn wheel_version(tool: &Tool, wheel: &Path) -> Result<Version> {
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    let version = name.split('-').nth(1).and_then(|version| version.parse().ok());
    version.with_context(|| format!("the wheel of {} has an unexpected name: {name}", tool.distribution))
}

/// Unpacking with `zipfile` loses the permission to run.
#[cfg(unix)]
fn make_executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", file.display()))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}
