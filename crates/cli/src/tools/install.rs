//! Fetching a tool: `pip` downloads the wheel, `zipfile` unpacks it, a rename puts it in place.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow, bail};

use octile_runtime::cleanup::{GuardedChild, Temporary};

use super::{Places, Tool, Version, find::sha256};
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
    // Relative folders of the search path would be those of whoever wrote the current one.
    let mut paths = Places::search_path().into_iter().map(|folder| folder.join("python3"));
    install_with(&Python(paths.find(|path| path.is_file())), tool, folder)
}

fn install_with(python: &Python, tool: &'static Tool, folder: &Path) -> Result<Installed> {
    abandoned::remove(folder, WORK);
    if let Some(installed) = already_there(tool, folder) {
        return Ok(installed);
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let work = Temporary::new(|| tempfile::Builder::new().prefix(WORK).tempdir_in(folder))
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    let wheel = download(python, tool, work.path())?;
    let unpacked = work.path().join("unpacked");
    let unpack: [&OsStr; 5] =
        ["-m".as_ref(), "zipfile".as_ref(), "-e".as_ref(), wheel.as_ref(), unpacked.as_ref()];
    python.run("unpack the wheel", &unpack, work.path())?;
    let version = tool.installed;
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
    let places = Places { installed: Some(folder.to_owned()), ..Default::default() };
    let found = tool.find(&places).ok()?;
    let version = found.version.filter(|version| *version == tool.installed)?;
    Some(Installed { tool, version, path: found.path, fetched: false })
}

/// Downloads the wheel that is known here, and no other: `pip` looks at its checksum, and so do we.
fn download(python: &Python, tool: &Tool, folder: &Path) -> Result<PathBuf> {
    let requirement = format!("{}=={}", tool.distribution, tool.installed);
    let what = format!("download {requirement}");
    let hashes: String = tool.wheels.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, format!("{requirement}{hashes}\n"))?;
    let arguments = [
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        "--quiet",
        "--dest",
    ];
    let files = [folder.as_os_str(), "-r".as_ref(), requirements.as_os_str()];
    let arguments: Vec<&OsStr> = arguments.into_iter().map(OsStr::new).chain(files).collect();
    python.run(&what, &arguments, folder).map_err(|error| {
        let hint = if error.is::<io::Error>() {
            "Python 3 with pip is needed"
        } else {
            "pip needs a network and a package index that has the wheel"
        };
        anyhow!("{error:#}; {hint}")
    })?;
    let wheels = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let wheel = wheels.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).last();
    let wheel = wheel.with_context(|| format!("pip said that it did {what}, but left no wheel"))?;
    let hash: String = sha256(&wheel)?.iter().map(|byte| format!("{byte:02x}")).collect();
    if !tool.wheels.contains(&hash.as_str()) {
        bail!(
            "the wheel of {requirement} has the unknown SHA-256 {hash}: it is not the one that was published"
        );
    }
    Ok(wheel)
}

/// The interpreter whose `pip` and `zipfile` do the work, where there is one.
struct Python(Option<PathBuf>);

impl Python {
    /// Runs it in `folder`, and repeats its last error when it fails. It is isolated: modules are those of the interpreter, not
    /// files that happen to lie in the current folder or in one that a variable names. The settings of pip stay in force.
    fn run(&self, what: &str, arguments: &[&OsStr], folder: &Path) -> Result<()> {
        let python = self.0.as_deref().unwrap_or(Path::new("python3"));
        let command = || match &self.0 {
            Some(path) => Ok(Command::new(path)),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "it is not on the search path")),
        };
        let run = |mut command: Command| {
            command.arg("-I").args(arguments).current_dir(folder);
            GuardedChild::output(command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1"))
        };
        let output = command()
            .and_then(run)
            .with_context(|| format!("cannot {what}: {} does not run", python.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let lines = || errors.lines().map(str::trim).rev();
        // What follows an error of pip explains it at length.
        let last = lines().find(|line| line.starts_with("ERROR:"));
        let last = last.or_else(|| lines().find(|line| !line.is_empty())).unwrap_or("python gave no reason");
        bail!("cannot {what}: {last}")
    }
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
    use std::ffi::OsString;

    use tempfile::TempDir;

    use super::*;
    use crate::tools::{LIBTPU, PTXAS};

    /// What an empty wheel has for its checksum.
    const EMPTY: [&str; 1] = ["e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"];
    static EMPTY_LIBTPU: Tool = Tool { wheels: &EMPTY, ..LIBTPU };
    static EMPTY_PTXAS: Tool = Tool { wheels: &EMPTY, ..PTXAS };

    /// An interpreter that runs `download` or `unpack` in the folder that it is asked to fill.
    fn python(place: &TempDir, download: &str, unpack: &str) -> Python {
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = -I ] || exit 1; shift\ncase \"$2\" in\n\
             pip) while [ \"$1\" != --dest ]; do shift; done; cd \"$2\" || exit 1; {download} ;;\n\
             zipfile) mkdir -p \"$5\"; cd \"$5\" || exit 1; {unpack} ;;\nesac\n"
        );
        let path = place.path().join("python3");
        fs::write(&path, script).unwrap();
        make_executable(&path).unwrap();
        Python(Some(path))
    }

    fn nobody() -> Python {
        Python(Some("/no/python".into()))
    }

    const DOWNLOAD_LIBTPU: &str = ": > libtpu-0.0.42.1-py3-none-linux.whl";
    const UNPACK_LIBTPU: &str = "mkdir libtpu libtpu-0.0.42.1.dist-info; : > libtpu/libtpu.so; \
         echo libtpu/libtpu.so,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0 > libtpu-0.0.42.1.dist-info/RECORD";

    fn names(folder: &Path) -> Vec<OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_wheel_is_fetched_once() {
        let place = TempDir::new().unwrap();
        let folder = place.path().join("tools");
        let python = python(&place, DOWNLOAD_LIBTPU, UNPACK_LIBTPU);
        let first = install_with(&python, &EMPTY_LIBTPU, &folder).unwrap();
        assert_eq!(first.path, folder.join("libtpu-0.0.42.1/libtpu/libtpu.so"));
        assert_eq!((first.version, first.fetched), (Version([0, 0, 42, 1]), true));
        let second = install_with(&nobody(), &EMPTY_LIBTPU, &folder).unwrap();
        assert_eq!(second, Installed { fetched: false, ..first });
        assert_eq!(names(&folder), ["libtpu-0.0.42.1"]);
    }

    #[test]
    fn a_damaged_tool_is_fetched_again_and_what_was_abandoned_removed() {
        let place = TempDir::new().unwrap();
        let folder = place.path().join("tools");
        let unpack = "mkdir libtpu libtpu-0.0.42.1.dist-info; echo whole > libtpu/libtpu.so; \
                      echo libtpu/libtpu.so,sha256=NmEpHigQe7lAFC00a9s6htpoQVrn_kUTdNQDxgN7n6U,6 > libtpu-0.0.42.1.dist-info/RECORD";
        let python = python(&place, DOWNLOAD_LIBTPU, unpack);
        let first = install_with(&python, &EMPTY_LIBTPU, &folder).unwrap();
        assert!(!install_with(&nobody(), &EMPTY_LIBTPU, &folder).unwrap().fetched);
        fs::write(&first.path, "cut").unwrap();
        install_with(&nobody(), &EMPTY_LIBTPU, &folder).unwrap_err();
        assert_eq!(fs::read_to_string(&first.path).unwrap(), "cut", "what cannot be replaced stays");
        let longer = abandoned::AGE + std::time::Duration::from_secs(60);
        for (name, age) in [("abandoned", longer), ("at-work", std::time::Duration::ZERO)] {
            let work = folder.join(format!("{WORK}{name}"));
            fs::create_dir(&work).unwrap();
            let then = std::time::SystemTime::now() - age;
            fs::File::open(&work).unwrap().set_modified(then).unwrap();
        }
        assert_eq!(install_with(&python, &EMPTY_LIBTPU, &folder).unwrap(), first);
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
            assert_eq!(install_with(&python, &EMPTY_LIBTPU, &folder).unwrap(), first);
            assert!(!install_with(&nobody(), &EMPTY_LIBTPU, &folder).unwrap().fetched);
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
        let installed = install_with(&python, &EMPTY_PTXAS, &place.path().join("tools")).unwrap();
        assert_eq!(installed.path.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn failures_leave_nothing_behind() {
        let place = TempDir::new().unwrap();
        let folder = place.path().join("tools");
        let fails = |python: Python, expected: &str| {
            let error = format!("{:#}", install_with(&python, &EMPTY_LIBTPU, &folder).unwrap_err());
            assert_eq!(error, expected);
            assert_eq!(names(&folder), [] as [OsString; 0]);
        };
        fails(
            python(&place, "echo ERROR: no such wheel >&2; exit 1", UNPACK_LIBTPU),
            "cannot download libtpu==0.0.42.1: ERROR: no such wheel; pip needs a network and a package index \
             that has the wheel",
        );
        fails(
            python(&place, DOWNLOAD_LIBTPU, "echo disk full >&2; exit 1"),
            "cannot unpack the wheel: disk full",
        );
        fails(
            python(&place, "echo other > libtpu-0.0.42.1-py3-none-linux.whl", UNPACK_LIBTPU),
            "the wheel of libtpu==0.0.42.1 has the unknown SHA-256 \
             7e4fa2eb8c7ac089739d5defc4489fad68a100d92082ca35c6b40a4524821f87: it is not the one that was published",
        );
        fails(
            Python(None),
            "cannot download libtpu==0.0.42.1: python3 does not run: it is not on the search path; \
             Python 3 with pip is needed",
        );
        fails(
            python(&place, DOWNLOAD_LIBTPU, "mkdir libtpu"),
            "the wheel of libtpu 0.0.42.1 does not hold libtpu/libtpu.so",
        );
        fails(
            nobody(),
            "cannot download libtpu==0.0.42.1: /no/python does not run: No such file or directory (os error 2); \
             Python 3 with pip is needed",
        );
    }
}
