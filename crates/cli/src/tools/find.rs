//! Locating a tool.

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
};

use super::{Tool, ToolVersion};
use crate::{command::seal, print::shown};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Serialize;

/// Where to look for a tool. Read from the environment once, so that tests need not change it.
#[derive(Debug, Clone, Default)]
pub struct ToolPaths {
    /// File named on the command line.
    pub flag: Option<PathBuf>,
    /// File named by the tool's variable.
    pub variable: Option<PathBuf>,
    /// Active virtual environment.
    pub active_environment: Option<PathBuf>,
    /// Folder of `octile tools install`.
    pub installed: Option<PathBuf>,
    /// Folders of PATH.
    pub search_path: Vec<PathBuf>,
}

impl ToolPaths {
    /// Reads the environment of this process. Relative folders are ignored, because the current folder may
    /// hold files of someone else.
    pub fn of_process(tool: &Tool, flag: Option<PathBuf>) -> Self {
        Self {
            flag,
            variable: path_variable(tool.variable),
            active_environment: folder_variable("VIRTUAL_ENV"),
            installed: Self::install_folder(),
            search_path: Self::search_path(),
        }
    }

    /// Returns the absolute folders of PATH.
    pub fn search_path() -> Vec<PathBuf> {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).filter(|folder| folder.is_absolute()).collect()
    }

    /// Returns the folder of `octile tools install`: `OCTILE_TOOLS`, else a folder in the user's cache.
    /// `None` if `OCTILE_TOOLS` is relative.
    pub fn install_folder() -> Option<PathBuf> {
        let home_cache = || folder_variable("HOME").map(|home| home.join(".cache"));
        let cache = || folder_variable("XDG_CACHE_HOME").or_else(home_cache);
        match path_variable("OCTILE_TOOLS") {
            Some(folder) => Some(folder).filter(|folder| folder.is_absolute()),
            None => cache().map(|cache| cache.join("octile/tools")),
        }
    }
}

fn path_variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Reads a variable that names an absolute folder.
fn folder_variable(name: &str) -> Option<PathBuf> {
    path_variable(name).filter(|folder| folder.is_absolute())
}

/// Where a tool was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOrigin {
    /// Named on the command line.
    Flag,
    /// Named by the tool's variable.
    Variable,
    /// In the active virtual environment.
    ActiveEnvironment,
    /// Installed by `octile tools install`.
    Installed,
    /// In PATH.
    SearchPath,
}

impl fmt::Display for ToolOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Flag => "named on the command line",
            Self::Variable => "named by an environment variable",
            Self::ActiveEnvironment => "in the active virtual environment",
            Self::Installed => "installed by octile tools",
            Self::SearchPath => "in PATH",
        })
    }
}

/// A tool on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundTool {
    /// The file.
    pub path: PathBuf,
    /// Its version, if the wheel's metadata is there.
    pub version: Option<ToolVersion>,
    /// Where it was found.
    pub origin: ToolOrigin,
}

impl FoundTool {
    /// Its version, or `unknown`.
    pub fn version_text(&self) -> String {
        self.version.map_or_else(|| "unknown".to_owned(), |version| version.to_string())
    }
}

/// Why a tool cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// The named file does not exist.
    #[error(
        "{by} names {path} as {tool}, which is not a file: name another one, or none",
        path = shown(.path)
    )]
    NotAFile {
        /// The tool.
        tool: &'static str,
        /// The command line or a variable.
        by: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// It was not found.
    #[error(
        "{tool} not found: run `octile tools install {group}`, set {variable} to the file, or activate a \
         virtual environment that contains it"
    )]
    Missing {
        /// The tool.
        tool: &'static str,
        /// Argument of `octile tools install`.
        group: &'static str,
        /// The tool's variable.
        variable: &'static str,
    },
    /// Its checksum is not the one in the wheel.
    #[error("{tool} ({path}) is damaged: run `octile tools install {group}`", path = shown(.path))]
    Damaged {
        /// The tool.
        tool: &'static str,
        /// Its path.
        path: PathBuf,
        /// Argument of `octile tools install`.
        group: &'static str,
    },
    /// It is too old.
    #[error(
        "{tool} {version} ({path}) is too old: {oldest} or newer is needed, run `octile tools install \
         {group}`",
        path = shown(.path)
    )]
    TooOld {
        /// The tool.
        tool: &'static str,
        /// Its path.
        path: PathBuf,
        /// Its version.
        version: ToolVersion,
        /// The oldest supported version.
        oldest: ToolVersion,
        /// Argument of `octile tools install`.
        group: &'static str,
    },
}

impl Tool {
    /// Locates the tool: the file that is named, else the first of the active virtual environment, the
    /// installed wheels and, for programs, PATH.
    pub fn find(&self, places: &ToolPaths) -> Result<FoundTool, FindError> {
        let found = self.locate(places)?;
        match found.version {
            Some(version) if version < self.oldest => Err(FindError::TooOld {
                tool: self.name,
                path: found.path,
                version,
                oldest: self.oldest,
                group: self.group,
            }),
            _ if found.origin == ToolOrigin::Installed && !self.is_as_recorded(&found.path) => {
                Err(FindError::Damaged { tool: self.name, path: found.path, group: self.group })
            }
            _ => Ok(found),
        }
    }

    fn locate(&self, places: &ToolPaths) -> Result<FoundTool, FindError> {
        let named = [
            (ToolOrigin::Flag, "the command line", &places.flag),
            (ToolOrigin::Variable, self.variable, &places.variable),
        ];
        for (origin, by, path) in named {
            let Some(path) = path else { continue };
            if !path.is_file() {
                return Err(FindError::NotAFile { tool: self.name, by, path: path.clone() });
            }
            // The loader would search for a bare name elsewhere.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            return Ok(FoundTool { version: self.version_beside(&path), path, origin });
        }
        let active = places.active_environment.iter().flat_map(|folder| site_packages(folder));
        let installed = places.installed.iter().flat_map(|folder| self.installed_in(folder));
        let sites = active.map(|site| (ToolOrigin::ActiveEnvironment, site));
        let sites = sites.chain(installed.map(|site| (ToolOrigin::Installed, site)));
        let mut candidates = sites.map(|(origin, site)| (origin, site.join(self.file)));
        let in_sites = candidates.find(|(_, path)| path.is_file());
        let on_path = || {
            let mut paths = places.search_path.iter().map(|folder| folder.join(self.name));
            let path = paths.find(|path| self.program && path.is_file())?;
            Some((ToolOrigin::SearchPath, path))
        };
        let (origin, path) = in_sites.or_else(on_path).ok_or(FindError::Missing {
            tool: self.name,
            group: self.group,
            variable: self.variable,
        })?;
        let version = self.version_beside(&path);
        Ok(FoundTool { path, version, origin })
    }

    /// Lists the unpacked wheels of this tool, newest first.
    pub(super) fn installed_in(&self, folder: &Path) -> Vec<PathBuf> {
        let version = |path: &Path| {
            path.file_name()?.to_str()?.strip_prefix(self.distribution)?.strip_prefix('-')?.parse().ok()
        };
        let mut wheels: Vec<(ToolVersion, PathBuf)> =
            entries(folder).into_iter().filter_map(|path| Some((version(&path)?, path))).collect();
        wheels.sort();
        wheels.into_iter().rev().map(|(_, path)| path).collect()
    }

    /// Whether size and SHA-256 of the file match the wheel's RECORD.
    fn is_as_recorded(&self, path: &Path) -> bool {
        let is_recorded = || -> Option<bool> {
            let record = fs::read_to_string(self.record_beside(path)?.join("RECORD")).ok()?;
            let line = record.lines().find(|line| line.split(',').next() == Some(self.file))?;
            let [_, hash, bytes] = line.split(',').collect::<Vec<_>>()[..] else { return None };
            let hash = hash.strip_prefix("sha256=")?;
            let has_size = path.metadata().ok()?.len() == bytes.trim().parse::<u64>().ok()?;
            Some(has_size && URL_SAFE_NO_PAD.encode(seal::sha256(fs::File::open(path).ok()?).ok()?) == hash)
        };
        is_recorded().unwrap_or(false)
    }

    /// Returns the version in the name of the wheel's `.dist-info` folder.
    fn version_beside(&self, path: &Path) -> Option<ToolVersion> {
        self.record_version(&self.record_beside(path)?)
    }

    fn record_beside(&self, path: &Path) -> Option<PathBuf> {
        let site = path.ancestors().nth(Path::new(self.file).components().count())?;
        entries(site).into_iter().find(|entry| self.record_version(entry).is_some())
    }

    fn record_version(&self, record: &Path) -> Option<ToolVersion> {
        let prefix = format!("{}-", self.distribution.replace('-', "_"));
        record.file_name()?.to_str()?.strip_prefix(&prefix)?.strip_suffix(".dist-info")?.parse().ok()
    }
}

/// Lists the site-packages folders of a virtual environment.
fn site_packages(environment: &Path) -> Vec<PathBuf> {
    entries(&environment.join("lib")).into_iter().map(|python| python.join("site-packages")).collect()
}

/// Lists a folder, sorted; empty if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::tools::{LIBTPU, PTXAS};

    /// A temporary folder with virtual environments and installed wheels.
    struct Machine(TempDir);

    impl Machine {
        fn new() -> Self {
            Self(TempDir::new().unwrap())
        }

        fn wheel(&self, site: &str, tool: &Tool, version: &str) -> PathBuf {
            let site = self.0.path().join(site);
            let record = format!("{}-{version}.dist-info", tool.distribution.replace('-', "_"));
            fs::create_dir_all(site.join(&record)).unwrap();
            let file = site.join(tool.file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            let hash = URL_SAFE_NO_PAD.encode(seal::sha256(fs::File::open(&file).unwrap()).unwrap());
            fs::write(site.join(&record).join("RECORD"), format!("{},sha256={hash},0\n", tool.file)).unwrap();
            file
        }

        fn places(&self) -> ToolPaths {
            ToolPaths {
                active_environment: Some(self.0.path().join("active")),
                installed: Some(self.0.path().join("tools")),
                search_path: vec![self.0.path().join("bin")],
                ..ToolPaths::default()
            }
        }
    }

    #[test]
    fn the_first_place_wins() {
        let machine = Machine::new();
        let mut places = machine.places();
        let expect = |places: &ToolPaths, path: &Path, origin| {
            let found = LIBTPU.find(places).unwrap();
            assert_eq!((found.path.as_path(), found.origin), (path, origin));
        };
        let installed = machine.wheel("tools/libtpu-0.0.42", &LIBTPU, "0.0.42");
        expect(&places, &installed, ToolOrigin::Installed);
        let newer = machine.wheel("tools/libtpu-0.0.42.1", &LIBTPU, "0.0.42.1");
        expect(&places, &newer, ToolOrigin::Installed);
        let active = machine.wheel("active/lib/python3.11/site-packages", &LIBTPU, "0.0.44");
        expect(&places, &active, ToolOrigin::ActiveEnvironment);
        places.variable = Some(newer.clone());
        expect(&places, &newer, ToolOrigin::Variable);
        places.flag = Some(installed.clone());
        expect(&places, &installed, ToolOrigin::Flag);
        assert_eq!(LIBTPU.find(&places).unwrap().version, Some(ToolVersion([0, 0, 42, 0])));
    }

    #[test]
    fn only_programs_are_searched_for_in_path() {
        let machine = Machine::new();
        fs::create_dir(machine.0.path().join("bin")).unwrap();
        for name in ["ptxas", "libtpu"] {
            fs::write(machine.0.path().join("bin").join(name), "").unwrap();
        }
        let found = PTXAS.find(&machine.places()).unwrap();
        assert_eq!((found.origin, found.version), (ToolOrigin::SearchPath, None));
        assert_eq!(
            LIBTPU.find(&machine.places()).unwrap_err().to_string(),
            "libtpu not found: run `octile tools install tpu`, set OCTILE_LIBTPU to the file, or activate a \
             virtual environment that contains it"
        );
    }

    #[test]
    fn a_named_file_must_exist() {
        let machine = Machine::new();
        machine.wheel("tools/libtpu-0.0.42", &LIBTPU, "0.0.42");
        let places = ToolPaths { variable: Some("/no/libtpu.so".into()), ..machine.places() };
        assert_eq!(
            LIBTPU.find(&places).unwrap_err().to_string(),
            "OCTILE_LIBTPU names /no/libtpu.so as libtpu, which is not a file: name another one, or none"
        );
    }

    #[test]
    fn installed_files_are_checked_against_the_wheel() {
        let machine = Machine::new();
        let file = machine.wheel("tools/nvidia-cuda-nvcc-13.4.92", &PTXAS, "13.4.92");
        assert!(PTXAS.find(&machine.places()).is_ok());
        let record =
            machine.0.path().join("tools/nvidia-cuda-nvcc-13.4.92/nvidia_cuda_nvcc-13.4.92.dist-info/RECORD");
        let whole = fs::read_to_string(&record).unwrap();
        let refused = || matches!(PTXAS.find(&machine.places()), Err(FindError::Damaged { .. }));
        // Same length but other content; a RECORD without the file; no RECORD.
        fs::write(&record, whole.replace("sha256=", "sha256=x")).unwrap();
        assert!(refused());
        fs::write(&record, "").unwrap();
        assert!(refused());
        fs::remove_file(&record).unwrap();
        assert!(refused());
        fs::write(&record, whole).unwrap();
        fs::write(&file, "longer").unwrap();
        assert!(refused());
    }

    #[test]
    fn old_versions_are_rejected() {
        let machine = Machine::new();
        let path = machine.wheel("active/lib/python3.11/site-packages", &LIBTPU, "0.0.9");
        assert_eq!(
            LIBTPU.find(&machine.places()).unwrap_err().to_string(),
            format!(
                "libtpu 0.0.9 ({}) is too old: 0.0.42 or newer is needed, run `octile tools install tpu`",
                path.display()
            )
        );
    }
}
