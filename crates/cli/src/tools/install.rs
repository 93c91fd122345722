//! Installing a tool: `pip` downloads the wheel, `zipfile` unpacks it, a rename puts it in place.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow, bail};

use octile_runtime::cleanup::{GuardedChild, Temporary};

use super::{Tool, ToolPaths, ToolVersion};
use crate::{abandoned, command::seal, print::shown};

/// A tool that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledTool {
    /// The tool.
    pub tool: &'static Tool,
    /// Its version.
    pub version: ToolVersion,
    /// The file.
    pub path: PathBuf,
    /// Whether it was downloaded just now.
    pub fetched: bool,
}

/// Installs a tool into `folder`, unless an intact copy of the right version is there. Works in a temporary
/// folder, so that a failure leaves nothing behind.
pub fn install(tool: &'static Tool, folder: &Path) -> Result<InstalledTool> {
    // Relative folders of PATH would refer to the current folder, which may hold files of someone else.
    let mut paths = ToolPaths::search_path().into_iter().map(|folder| folder.join("python3"));
    install_with(&Python(paths.find(|path| path.is_file())), tool, folder)
}

fn install_with(python: &Python, tool: &'static Tool, folder: &Path) -> Result<InstalledTool> {
    abandoned::remove(folder, WORK);
    if let Some(installed) = already_there(tool, folder) {
        return Ok(installed);
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", shown(folder)))?;
    let work = Temporary::new(|| tempfile::Builder::new().prefix(WORK).tempdir_in(folder))
        .with_context(|| format!("cannot write to {}", shown(folder)))?;
    let wheel = download(python, tool, work.path())?;
    let unpacked = work.path().join("unpacked");
    let unpack: [&OsStr; 5] =
        ["-m".as_ref(), "zipfile".as_ref(), "-e".as_ref(), wheel.as_ref(), unpacked.as_ref()];
    python.run("unpack the wheel", &unpack, work.path())?;
    let version = tool.installed;
    let file = unpacked.join(tool.file);
    if !file.is_file() {
        bail!("the wheel of {} {version} does not contain {}", tool.distribution, tool.file);
    }
    if tool.program {
        make_executable(&file)?;
    }
    let place = folder.join(format!("{}-{version}", tool.distribution));
    if fs::rename(&unpacked, &place).is_err() {
        // Another process may have been faster.
        if let Some(other) = already_there(tool, folder) {
            return Ok(other);
        }
        // The old copy is damaged; it is deleted with the temporary folder.
        let _ = fs::rename(&place, work.path().join("damaged"));
        fs::rename(&unpacked, &place)
            .with_context(|| format!("cannot move the wheel to {}", shown(&place)))?;
    }
    Ok(InstalledTool { tool, version, path: place.join(tool.file), fetched: true })
}

/// Name prefix of temporary folders.
const WORK: &str = ".unpacking-";

fn already_there(tool: &'static Tool, folder: &Path) -> Option<InstalledTool> {
    let places = ToolPaths { installed: Some(folder.to_owned()), ..Default::default() };
    let found = tool.find(&places).ok()?;
    let version = found.version.filter(|version| *version == tool.installed)?;
    Some(InstalledTool { tool, version, path: found.path, fetched: false })
}

/// Downloads the wheel. Both `pip` and this function check its SHA-256.
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
            "install Python 3 with pip"
        } else {
            "pip needs a network and a package index that has the wheel"
        };
        anyhow!("{error:#}; {hint}")
    })?;
    let wheels = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let wheel = wheels.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).last();
    let wheel = wheel.with_context(|| format!("pip reports success, but left no wheel: cannot {what}"))?;
    let hash = seal::hex(seal::sha256(fs::File::open(&wheel)?)?);
    if !tool.wheels.contains(&hash.as_str()) {
        bail!("the wheel of {requirement} has SHA-256 {hash}, which is not that of a published wheel");
    }
    Ok(wheel)
}

/// The Python interpreter, if there is one.
struct Python(Option<PathBuf>);

impl Python {
    /// Runs Python in `folder` and reports its last error. In isolated mode (`-I`), so that no modules are
    /// imported from the current folder or PYTHONPATH; pip's own configuration applies.
    fn run(&self, what: &str, arguments: &[&OsStr], folder: &Path) -> Result<()> {
        let python = self.0.as_deref().unwrap_or(Path::new("python3"));
        let command = || match &self.0 {
            Some(path) => Ok(Command::new(path)),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "it is not in PATH")),
        };
        let run = |mut command: Command| {
            command.arg("-I").args(arguments).current_dir(folder);
            GuardedChild::output(command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1"))
        };
        let output = command()
            .and_then(run)
            .with_context(|| format!("cannot {what}: cannot run {}", shown(python)))?;
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let lines = || errors.lines().map(str::trim).rev();
        // pip follows an error with a long explanation.
        let last = lines().find(|line| line.starts_with("ERROR:"));
        let last = last.or_else(|| lines().find(|line| !line.is_empty())).unwrap_or("no error message");
        bail!("cannot {what}: {last}")
    }
}

/// `zipfile` does not restore the executable bit.
#[cfg(unix)]
fn make_executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", shown(file)))
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

    /// SHA-256 of an empty wheel.
    const EMPTY: [&str; 1] = ["e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"];
    static EMPTY_LIBTPU: Tool = Tool { wheels: &EMPTY, ..LIBTPU };
    static EMPTY_PTXAS: Tool = Tool { wheels: &EMPTY, ..PTXAS };

    /// A fake interpreter that runs `download` or `unpack` in the target folder.
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
         echo libtpu/libtpu.so,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0 \
         > libtpu-0.0.42.1.dist-info/RECORD";

    fn names(folder: &Path) -> Vec<OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_wheel_is_downloaded_once() {
        let place = TempDir::new().unwrap();
        let folder = place.path().join("tools");
        let python = python(&place, DOWNLOAD_LIBTPU, UNPACK_LIBTPU);
        let first = install_with(&python, &EMPTY_LIBTPU, &folder).unwrap();
        assert_eq!(first.path, folder.join("libtpu-0.0.42.1/libtpu/libtpu.so"));
        assert_eq!((first.version, first.fetched), (ToolVersion([0, 0, 42, 1]), true));
        let second = install_with(&nobody(), &EMPTY_LIBTPU, &folder).unwrap();
        assert_eq!(second, InstalledTool { fetched: false, ..first });
        assert_eq!(names(&folder), ["libtpu-0.0.42.1"]);
    }

    #[test]
    fn damaged_tools_are_replaced_and_abandoned_folders_removed() {
        let place = TempDir::new().unwrap();
        let folder = place.path().join("tools");
        let unpack = "mkdir libtpu libtpu-0.0.42.1.dist-info; echo whole > libtpu/libtpu.so; \
                      echo libtpu/libtpu.so,sha256=NmEpHigQe7lAFC00a9s6htpoQVrn_kUTdNQDxgN7n6U,6 \
                      > libtpu-0.0.42.1.dist-info/RECORD";
        let python = python(&place, DOWNLOAD_LIBTPU, unpack);
        let first = install_with(&python, &EMPTY_LIBTPU, &folder).unwrap();
        assert!(!install_with(&nobody(), &EMPTY_LIBTPU, &folder).unwrap().fetched);
        fs::write(&first.path, "cut").unwrap();
        install_with(&nobody(), &EMPTY_LIBTPU, &folder).unwrap_err();
        assert_eq!(fs::read_to_string(&first.path).unwrap(), "cut", "a failed download keeps the old file");
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
            "the wheel of libtpu==0.0.42.1 has SHA-256 \
             7e4fa2eb8c7ac089739d5defc4489fad68a100d92082ca35c6b40a4524821f87, which is not that of a \
             published wheel",
        );
        fails(
            Python(None),
            "cannot download libtpu==0.0.42.1: cannot run python3: it is not in PATH; \
             install Python 3 with pip",
        );
        fails(
            python(&place, DOWNLOAD_LIBTPU, "mkdir libtpu"),
            "the wheel of libtpu 0.0.42.1 does not contain libtpu/libtpu.so",
        );
        fails(
            nobody(),
            "cannot download libtpu==0.0.42.1: cannot run /no/python: No such file or directory (os error \
             2); install Python 3 with pip",
        );
    }
}
