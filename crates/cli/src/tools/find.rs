//! Where a tool is.

use std::{
    env, fmt, fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Tool, Version};

/// Everywhere a tool may be. Read from the environment once, so that tests need not change it.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// A file that the command line names.
    pub flag: Option<PathBuf>,
    /// A file that the tool's variable names.
    pub variable: Option<PathBuf>,
    /// The folder of the active virtual environment.
    pub active_environment: Option<PathBuf>,
    /// Where `octile tools install` puts wheels.
    pub installed: Option<PathBuf>,
    /// The folders of the search path.
    pub search_path: Vec<PathBuf>,
}

impl Places {
    /// The places of this process. The current folder may be anyone's: it is looked into only where a flag or the tool's variable
    /// names a file there.
    pub fn of_process(tool: &Tool, flag: Option<PathBuf>) -> Self {
        Self {
            flag,
            variable: path_variable(tool.variable),
            active_environment: folder_variable("VIRTUAL_ENV"),
            installed: Self::install_folder(),
            search_path: Self::search_path(),
        }
    }

    /// The folders of the search path, without those that are relative to the current one.
    pub fn search_path() -> Vec<PathBuf> {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).filter(|folder| folder.is_absolute()).collect()
    }

    /// Where `octile tools install` puts wheels: `OCTILE_TOOLS`, else the user's cache folder. None where `OCTILE_TOOLS` is relative:
    /// that would be another folder wherever the program is run.
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

/// A folder that means the same wherever the program is run.
fn folder_variable(name: &str) -> Option<PathBuf> {
    path_variable(name).filter(|folder| folder.is_absolute())
}

/// How a tool was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The command line names it.
    Flag,
    /// The tool's variable names it.
    Variable,
    /// It is in the active virtual environment.
    ActiveEnvironment,
    /// `octile tools install` put it there.
    Installed,
    /// It is on the search path.
    SearchPath,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Flag => "named on the command line",
            Self::Variable => "named by its variable",
            Self::ActiveEnvironment => "in the active virtual environment",
            Self::Installed => "installed by octile tools",
            Self::SearchPath => "on the search path",
        })
    }
}

/// A tool that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// Its version, where the wheel's record lies beside it.
    pub version: Option<Version>,
    /// How it was found.
    pub origin: Origin,
}

/// A tool that is not there, or not fit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// A name that leads nowhere is an error, not a reason to look elsewhere.
    #[error("{tool} was named by {by} as {path}, but that is no file: name another one, or none", path = .path.display())]
    NotAFile {
        /// Which tool.
        tool: &'static str,
        /// The command line, or a variable.
        by: &'static str,
        /// What was named.
        path: PathBuf,
    },
    /// It is nowhere.
    #[error(
        "{tool} was not found: run `octile tools install {group}`, or name the file in {variable} (an active virtual \
         environment that holds it is found by itself)"
    )]
    Missing {
        /// Which tool.
        tool: &'static str,
        /// What installs it.
        group: &'static str,
        /// What names it.
        variable: &'static str,
    },
    /// It is not what its wheel held.
    #[error("{tool} ({path}) is damaged: run `octile tools install {group}`", path = .path.display())]
    Damaged {
        /// Which tool.
        tool: &'static str,
        /// Where it is.
        path: PathBuf,
        /// What installs it anew.
        group: &'static str,
    },
    /// It would not understand us.
    #[error(
        "{tool} {version} ({path}) is too old: {oldest} or newer is needed, run `octile tools install {group}`",
        path = .path.display()
    )]
    TooOld {
        /// Which tool.
        tool: &'static str,
        /// Where it is.
        path: PathBuf,
        /// What it is.
        version: Version,
        /// What it should be.
        oldest: Version,
        /// What installs a newer one.
        group: &'static str,
    },
}

impl Tool {
    /// The file to use: the one that is named, else the first of the active virtual environment, the
    /// installed wheels and, for programs, the search path.
    pub fn find(&self, places: &Places) -> Result<Found, FindError> {
        let found = self.locate(places)?;
        match found.version {
            Some(version) if version < self.oldest => Err(FindError::TooOld {
                tool: self.name,
                path: found.path,
                version,
                oldest: self.oldest,
                group: self.group,
            }),
            _ if found.origin == Origin::Installed && !self.is_as_recorded(&found.path) => {
                Err(FindError::Damaged { tool: self.name, path: found.path, group: self.group })
            }
            _ => Ok(found),
        }
    }

    fn locate(&self, places: &Places) -> Result<Found, FindError> {
        let named = [
            (Origin::Flag, "the command line", &places.flag),
            (Origin::Variable, self.variable, &places.variable),
        ];
        for (origin, by, path) in named {
            let Some(path) = path else { continue };
            if !path.is_file() {
                return Err(FindError::NotAFile { tool: self.name, by, path: path.clone() });
            }
            // The system would look for a bare name elsewhere.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            return Ok(Found { version: self.version_beside(&path), path, origin });
        }
        let active = places.active_environment.iter().flat_map(|folder| site_packages(folder));
        let installed = places.installed.iter().flat_map(|folder| self.installed_in(folder));
        let sites = active.map(|site| (Origin::ActiveEnvironment, site));
        let sites = sites.chain(installed.map(|site| (Origin::Installed, site)));
        let mut candidates = sites.map(|(origin, site)| (origin, site.join(self.file)));
        let in_sites = candidates.find(|(_, path)| path.is_file());
        let on_path = || {
            let mut paths = places.search_path.iter().map(|folder| folder.join(self.name));
            let path = paths.find(|path| self.program && path.is_file())?;
            Some((Origin::SearchPath, path))
        };
        let (origin, path) = in_sites.or_else(on_path).ok_or(FindError::Missing {
            tool: self.name,
            group: self.group,
            variable: self.variable,
        })?;
        let version = self.version_beside(&path);
        Ok(Found { path, version, origin })
    }

    /// The unpacked wheels of this tool in the folder of `octile tools install`, newest first.
    pub(super) fn installed_in(&self, folder: &Path) -> Vec<PathBuf> {
        let version = |path: &Path| {
            path.file_name()?.to_str()?.strip_prefix(self.distribution)?.strip_prefix('-')?.parse().ok()
        };
        let mut wheels: Vec<(Version, PathBuf)> =
            entries(folder).into_iter().filter_map(|path| Some((version(&path)?, path))).collect();
        wheels.sort();
        wheels.into_iter().rev().map(|(_, path)| path).collect()
    }

    /// Whether the file is the one that the wheel's record tells of, by size and SHA-256.
    fn is_as_recorded(&self, path: &Path) -> bool {
        let is_recorded = || -> Option<bool> {
            let record = fs::read_to_string(self.record_beside(path)?.join("RECORD")).ok()?;
            let line = record.lines().find(|line| line.split(',').next() == Some(self.file))?;
            let [_, hash, bytes] = line.split(',').collect::<Vec<_>>()[..] else { return None };
            let hash = hash.strip_prefix("sha256=")?;
            let has_size = path.metadata().ok()?.len() == bytes.trim().parse::<u64>().ok()?;
            Some(has_size && URL_SAFE_NO_PAD.encode(sha256(path).ok()?) == hash)
        };
        is_recorded().unwrap_or(false)
    }

    /// The version in the name of the wheel's record, which lies in the folder that the file's path starts from.
    fn version_beside(&self, path: &Path) -> Option<Version> {
        self.record_version(&self.record_beside(path)?)
    }

    fn record_beside(&self, path: &Path) -> Option<PathBuf> {
        let site = path.ancestors().nth(Path::new(self.file).components().count())?;
        entries(site).into_iter().find(|entry| self.record_version(entry).is_some())
    }

    fn record_version(&self, record: &Path) -> Option<Version> {
        let prefix = format!("{}-", self.distribution.replace('-', "_"));
        record.file_name()?.to_str()?.strip_prefix(&prefix)?.strip_suffix(".dist-info")?.parse().ok()
    }
}

/// The SHA-256 of a file.
pub(super) fn sha256(path: &Path) -> io::Result<[u8; 32]> {
    let (mut file, mut hash) = (fs::File::open(path)?, Sha256::new());
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().into()),
            count => hash.update(&buffer[..count]),
        }
    }
}

/// The folders of a virtual environment that wheels are unpacked into.
fn site_packages(environment: &Path) -> Vec<PathBuf> {
    entries(&environment.join("lib")).into_iter().map(|python| python.join("site-packages")).collect()
}

/// What is in a folder, by name; nothing if it cannot be read.
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

    /// A folder with a virtual environment or installed wheel for each of the places named.
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
            let hash = URL_SAFE_NO_PAD.encode(sha256(&file).unwrap());
            fs::write(site.join(&record).join("RECORD"), format!("{},sha256={hash},0\n", tool.file)).unwrap();
            file
        }

        fn places(&self) -> Places {
            Places {
                active_environment: Some(self.0.path().join("active")),
                installed: Some(self.0.path().join("tools")),
                search_path: vec![self.0.path().join("bin")],
                ..Places::default()
            }
        }
    }

    #[test]
    fn the_nearest_place_wins() {
        let machine = Machine::new();
        let mut places = machine.places();
        let expect = |places: &Places, path: &Path, origin| {
            let found = LIBTPU.find(places).unwrap();
            assert_eq!((found.path.as_path(), found.origin), (path, origin));
        };
        let installed = machine.wheel("tools/libtpu-0.0.42", &LIBTPU, "0.0.42");
        expect(&places, &installed, Origin::Installed);
        let newer = machine.wheel("tools/libtpu-0.0.42.1", &LIBTPU, "0.0.42.1");
        expect(&places, &newer, Origin::Installed);
        let active = machine.wheel("active/lib/python3.11/site-packages", &LIBTPU, "0.0.44");
        expect(&places, &active, Origin::ActiveEnvironment);
        places.variable = Some(newer.clone());
        expect(&places, &newer, Origin::Variable);
        places.flag = Some(installed.clone());
        expect(&places, &installed, Origin::Flag);
        assert_eq!(LIBTPU.find(&places).unwrap().version, Some(Version([0, 0, 42, 0])));
    }

    #[test]
    fn only_programs_are_sought_on_the_search_path() {
        let machine = Machine::new();
        fs::create_dir(machine.0.path().join("bin")).unwrap();
        for name in ["ptxas", "libtpu"] {
            fs::write(machine.0.path().join("bin").join(name), "").unwrap();
        }
        let found = PTXAS.find(&machine.places()).unwrap();
        assert_eq!((found.origin, found.version), (Origin::SearchPath, None));
        assert_eq!(
            LIBTPU.find(&machine.places()).unwrap_err().to_string(),
            "libtpu was not found: run `octile tools install tpu`, or name the file in OCTILE_LIBTPU (an active virtual \
             environment that holds it is found by itself)"
        );
    }

    #[test]
    fn a_name_that_leads_nowhere_is_an_error() {
        let machine = Machine::new();
        machine.wheel("tools/libtpu-0.0.42", &LIBTPU, "0.0.42");
        let places = Places { variable: Some("/no/libtpu.so".into()), ..machine.places() };
        assert_eq!(
            LIBTPU.find(&places).unwrap_err().to_string(),
            "libtpu was named by OCTILE_LIBTPU as /no/libtpu.so, but that is no file: name another one, or none"
        );
    }

    #[test]
    fn an_installed_file_is_what_its_wheel_held() {
        let machine = Machine::new();
        let file = machine.wheel("tools/nvidia-cuda-nvcc-13.4.92", &PTXAS, "13.4.92");
        assert!(PTXAS.find(&machine.places()).is_ok());
        let record =
            machine.0.path().join("tools/nvidia-cuda-nvcc-13.4.92/nvidia_cuda_nvcc-13.4.92.dist-info/RECORD");
        let whole = fs::read_to_string(&record).unwrap();
        let refused = || matches!(PTXAS.find(&machine.places()), Err(FindError::Damaged { .. }));
        // As long as it was, with other content; a record without the file; none.
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
    fn old_versions_are_refused() {
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
