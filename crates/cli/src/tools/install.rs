//! Fetching a tool: `pip` downloads the wheel, `zipfile` unpacks it, a rename puts it in place.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow, bail};

use super::{Tool, Version};
use crate::abandoned;

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

/// Puts a tool into `folder`, unless a version that fits is there and whole. Nothing half-written remains on failure: all work
/// is done in a temporary folder beside the final one.
pub fn install(tool: &'static Tool, folder: &Path) -> Result<Installed> {
    install_with(&Python("python3".into()), tool, folder)
}

fn install_with(python: &Python, tool: &'static Tool, folder: &Path) -> Result<Installed> {
    abandoned::remove(folder, WORK);
    if let Some(installed) = already_there(tool, folder) {
        return Ok(installed);
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let work = tempfile::Builder::new()
        .prefix(WORK)
        .tempdir_in(folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    let wheel = download(python, tool, work.path())?;
    let unpacked = work.path().join("unpacked");
    python.run(
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
    if fs::rename(&unpacked, &place).is_err() {
        // Somebody else may have been faster.
        if let Some(other) = already_there(tool, folder) {
            return Ok(other);
        }
        // What is there is damaged, and goes with the temporary folder.
        let _ = fs::rename(&place, work.path().join("damaged"));
        fs::rename(&unpacked, &place)
            .with_context(|| format!("cannot move the wheel to {}", place.display()))?;
    }
    Ok(Installed { tool, version, path: place.join(tool.file), fetched: true })
}

/// How the names of folders begin in which a wheel is unpacked.
const WORK: &str = ".unpacking-";

fn already_there(tool: &'static Tool, folder: &Path) -> Option<Installed> {
    let places = super::Places { installed: Some(folder.to_owned()), ..Default::default() };
    let found = tool.find(&places).ok()?;
    let version = found.version.filter(|version| *version < tool.below)?;
    Some(Installed { tool, version, path: found.path, fetched: false })
}

fn download(python: &Python, tool: &Tool, folder: &Path) -> Result<PathBuf> {
    let requirement = format!("{}>={},<{}", tool.distribution, tool.oldest, tool.below);
    let what = format!("download {requirement}");
    let arguments = ["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet", "--dest"];
    let arguments = arguments.into_iter().map(OsStr::new).chain([folder.as_os_str(), requirement.as_ref()]);
    python.run(&what, arguments).map_err(|error| {
        let hint = if error.is::<io::Error>() {
            "Python 3 with pip is needed"
        } else {
            "pip needs a network and a package index that has the wheel"
        };
        anyhow!("{error:#}; {hint}")
    })?;
    let wheels = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let wheel = wheels.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).last();
    wheel.with_context(|| format!("pip said that it did {what}, but left no wheel"))
}

/// The interpreter whose `pip` and `zipfile` do the work.
struct Python(OsString);

impl Python {
    /// Runs it, and repeats its last line when it fails.
    fn run<'a>(&self, what: &str, arguments: impl IntoIterator<Item = &'a OsStr>) -> Result<()> {
        let output = Command::new(&self.0)
            .args(arguments)
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
            .output()
            .with_context(|| format!("cannot {what}: {} does not run", self.0.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let last =
            errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("python gave no reason");
        bail!("cannot {what}: {}", last.trim())
    }
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

#[cfg(all(test, unix))]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::tools::{LIBTPU, PTXAS};

    /// An interpreter that runs `download` or `unpack` in the folder that it is asked to fill.
    fn python(place: &TempDir, download: &str, unpack: &str) -> Python {
        let script = format!(
            "#!/bin/sh\ncase \"$2\" in\n\
             pip) while [ \"$1\" != --dest ]; do shift; done; cd \"$2\" || exit 1; {download} ;;\n\
             zipfile) mkdir -p \"$5\"; cd \"$5\" || exit 1; {unpack} ;;\nesac\n"
        );
        let path = place.path().join("python3");
        fs::write(&path, script).unwrap();
        make_executable(&path).unwrap();
        Python(path.into())
    }

    const DOWNLOAD_LIBTPU: &str = ": > libtpu-0.0.42.1-py3-none-linux.whl";
    const UNPACK_LIBTPU: &str = "mkdir libtpu libtpu-0.0.42.1.dist-info; : > libtpu/libtpu.so";

    fn names(folder: &Path) -> Vec<OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_wheel_is_fetched_once() {
        let place = TempDir::new().unwrap();
        let folder = place.path().join("tools");
        let python = python(&place, DOWNLOAD_LIBTPU, UNPACK_LIBTPU);
        let first = install_with(&python, &LIBTPU, &folder).unwrap();
        assert_eq!(first.path, folder.join("libtpu-0.0.42.1/libtpu/libtpu.so"));
        assert_eq!((first.version, first.fetched), (Version([0, 0, 42, 1]), true));
        let second = install_with(&Python("/no/python".into()), &LIBTPU, &folder).unwrap();
        assert_eq!(second, Installed { fetched: false, ..first });
        assert_eq!(names(&folder), ["libtpu-0.0.42.1"]);
    }

    #[test]
    fn a_damaged_tool_is_fetched_again_and_what_was_abandoned_removed() {
        let place = TempDir::new().unwrap();
        let folder = place.path().join("tools");
        let unpack = "mkdir libtpu libtpu-0.0.42.1.dist-info; echo whole > libtpu/libtpu.so; \
                      echo libtpu/libtpu.so,sha256=abc,6 > libtpu-0.0.42.1.dist-info/RECORD";
        let python = python(&place, DOWNLOAD_LIBTPU, unpack);
        let first = install_with(&python, &LIBTPU, &folder).unwrap();
        assert!(!install_with(&Python("/no/python".into()), &LIBTPU, &folder).unwrap().fetched);
        let nobody = Python("/no/python".into());
        fs::write(&first.path, "cut").unwrap();
        install_with(&nobody, &LIBTPU, &folder).unwrap_err();
        assert_eq!(fs::read_to_string(&first.path).unwrap(), "cut", "what cannot be replaced stays");
        let longer = abandoned::AGE + std::time::Duration::from_secs(60);
        for (name, age) in [("abandoned", longer), ("at-work", std::time::Duration::ZERO)] {
            let work = folder.join(format!("{WORK}{name}"));
            fs::create_dir(&work).unwrap();
            let then = std::time::SystemTime::now() - age;
            fs::File::open(&work).unwrap().set_modified(then).unwrap();
        }
        assert_eq!(install_with(&python, &LIBTPU, &folder).unwrap(), first);
        assert_eq!(fs::read_to_string(&first.path).unwrap(), "whole\n");
        let mut left = names(&folder);
        left.sort();
        assert_eq!(left, [&format!("{WORK}at-work"), "libtpu-0.0.42.1"]);
        let place = folder.join("libtpu-0.0.42.1");
        let damages: [&dyn Fn(); 3] = [
            &|| fs::remove_file(&first.path).unwrap(),
            &|| fs::remove_dir_all(place.join("libtpu-0.0.42.1.dist-info")).unwrap(),
            &|| fs::remove_dir_all(place.join("libtpu")).unwrap(),
        ];
        for damage in damages {
            damage();
            assert_eq!(install_with(&python, &LIBTPU, &folder).unwrap(), first);
            assert!(!install_with(&nobody, &LIBTPU, &folder).unwrap().fetched);
        }
    }

    #[test]
    fn programs_can_be_run() {
        use std::os::unix::fs::PermissionsExt;
        let place = TempDir::new().unwrap();
        let python = python(
            &place,
            ": > nvidia_cuda_nvcc-13.4.92-py3-none-linux.whl",
            "mkdir -p nvidia/cu13/bin nvidia_cuda_nvcc-13.4.92.dist-info; : > nvidia/cu13/bin/ptxas",
        );
        let installed = install_with(&python, &PTXAS, &place.path().join("tools")).unwrap();
        assert_eq!(installed.path.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn failures_leave_nothing_behind() {
        let place = TempDir::new().unwrap();
        let folder = place.path().join("tools");
        let fails = |python: Python, expected: &str| {
            let error = format!("{:#}", install_with(&python, &LIBTPU, &folder).unwrap_err());
            assert_eq!(error, expected);
            assert_eq!(names(&folder), [] as [OsString; 0]);
        };
        fails(
            python(&place, "echo ERROR: no such wheel >&2; exit 1", UNPACK_LIBTPU),
            "cannot download libtpu>=0.0.42,<0.0.43: ERROR: no such wheel; pip needs a network and a package index \
             that has the wheel",
        );
        fails(
            python(&place, DOWNLOAD_LIBTPU, "echo disk full >&2; exit 1"),
            "cannot unpack the wheel: disk full",
        );
        fails(
            python(&place, DOWNLOAD_LIBTPU, "mkdir libtpu"),
            "the wheel of libtpu 0.0.42.1 does not hold libtpu/libtpu.so",
        );
        fails(
            Python("/no/python".into()),
            "cannot download libtpu>=0.0.42,<0.0.43: /no/python does not run: No such file or directory (os error 2); \
             Python 3 with pip is needed",
        );
    }
}
