//! Output folders that appear complete or not at all: versions are built beside them and then renamed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use octile_runtime::cleanup::{self, Temporary};
use tempfile::TempDir;

use crate::{abandoned, command::analyze::manifest::FILE_NAME as MANIFEST, print::shown};

/// Name prefix of folders with incomplete versions.
const DRAFTS: &str = ".octile-inspect-";
/// Name prefix of folders for compiler dumps.
const DUMPS: &str = octile_runtime::pjrt::compile::TEMPORARY_PREFIX;

/// The output folder, and the drafts of its versions.
#[derive(Debug)]
pub struct OutputFolder {
    output: PathBuf,
    /// On the same file system as the output, so that a rename moves them.
    drafts: Temporary<TempDir>,
}

impl OutputFolder {
    /// Prepares to write versions to `output`. Rejects existing files and folders of these names that `octile
    /// inspect` did not write.
    pub fn open(output: &Path, versions: &[String]) -> Result<Self> {
        for version in versions {
            refuse_foreign(&output.join(version), &output.join(hlo_name(version)))?;
        }
        let parent = parent(output)?;
        // A file or a dangling link where a folder should be.
        let in_the_way = |path: &&Path| is_there(path) && !path.is_dir();
        if let Some(file) = output.ancestors().find(in_the_way) {
            bail!(
                "cannot write to {}: {} is not a folder; choose another with -o",
                shown(output),
                shown(file)
            );
        }
        abandoned::remove(&parent, DRAFTS);
        let drafts = Temporary::new(|| tempfile::Builder::new().prefix(DRAFTS).tempdir_in(&parent));
        let drafts = drafts.map_err(|error| {
            // The full error names the temporary folder, which the user does not know.
            let reason = io::Error::from(error.kind());
            anyhow::anyhow!("cannot write to {} ({reason}): choose another folder with -o", shown(&parent))
        })?;
        Ok(Self { output: output.to_owned(), drafts })
    }

    /// Creates the draft folder of a version.
    pub fn draft(&self, version: &str) -> Result<PathBuf> {
        let folder = self.drafts.path().join(version);
        fs::create_dir(&folder).context("cannot create a temporary folder")?;
        Ok(folder)
    }

    /// Returns the draft of a version's HLO file.
    pub fn draft_hlo(&self, version: &str) -> PathBuf {
        self.drafts.path().join(hlo_name(version))
    }

    /// Replaces the folders and HLO files of these versions by their drafts: all of them, or none if one
    /// cannot be moved. Signals wait meanwhile.
    pub fn put_all(&self, versions: &[String]) -> Result<Vec<PathBuf>> {
        let put = || -> io::Result<Vec<PathBuf>> {
            fs::create_dir_all(&self.output)?;
            cleanup::uninterrupted(|| {
                let mut moves = Moves::default();
                versions.iter().try_for_each(|version| self.put(version, &mut moves))?;
                moves.keep();
                Ok(versions.iter().map(|version| self.output.join(version)).collect())
            })
        };
        put().with_context(|| {
            let output = shown(&self.output);
            format!("cannot write {} to {output}, which is unchanged", versions.join(", "))
        })
    }

    fn put(&self, version: &str, moves: &mut Moves) -> io::Result<()> {
        let (folder, hlo) = (self.output.join(version), self.output.join(hlo_name(version)));
        // Old versions go to the temporary folder, which is deleted at the end.
        for old in [&folder, &hlo] {
            if old.exists() {
                let name = old.file_name().unwrap_or_default().to_string_lossy();
                moves.rename(old, &self.drafts.path().join(format!("{name}.old")))?;
            }
        }
        moves.rename(&self.drafts.path().join(version), &folder)?;
        if self.draft_hlo(version).exists() {
            moves.rename(&self.draft_hlo(version), &hlo)?;
        }
        Ok(())
    }
}

/// Renamed files and folders; dropping it undoes the renames unless they are kept.
#[derive(Debug, Default)]
struct Moves(Vec<(PathBuf, PathBuf)>);

impl Moves {
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        self.0.push((from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for Moves {
    fn drop(&mut self) {
        for (from, to) in self.0.drain(..).rev() {
            // There is no way to report an error here.
            let _ = fs::rename(to, from);
        }
    }
}

/// File name of a version's optimized HLO, as in the original guides.
fn hlo_name(version: &str) -> String {
    format!("{version}_hlo.txt")
}

/// Rejects a folder without our manifest, and an HLO file beside such a folder: they are the user's.
fn refuse_foreign(folder: &Path, hlo: &Path) -> Result<()> {
    let ours = folder.join(MANIFEST).is_file();
    let empty = || fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    let foreign = match () {
        () if is_there(folder) && !ours && !empty() => folder,
        () if is_there(hlo) && !(ours && hlo.is_file()) => hlo,
        () => return Ok(()),
    };
    bail!(
        "{} exists, and `octile inspect` did not write it: move it, or choose another folder with -o",
        shown(foreign)
    )
}

/// Whether a path exists, even as a dangling link.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Creates a temporary folder for the compiler.
pub(super) fn dump_folder() -> Result<Temporary<TempDir>> {
    abandoned::remove(&std::env::temp_dir(), DUMPS);
    let folder = Temporary::new(|| tempfile::Builder::new().prefix(DUMPS).tempdir());
    folder.context("cannot create a temporary folder")
}

/// Returns the closest existing folder above `output`.
fn parent(output: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(output).with_context(|| format!("invalid path {}", shown(output)))?;
    let above = absolute.ancestors().skip(1).find(|folder| folder.is_dir());
    Ok(above.unwrap_or(Path::new("/")).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn open(output: &Path) -> Result<OutputFolder> {
        OutputFolder::open(output, &["v1".to_owned()])
    }

    #[test]
    fn a_version_is_replaced_as_a_whole() {
        let root = TempDir::new().unwrap();
        let output = root.path().join("a/b");
        for (round, hlo) in [("first", true), ("second", true), ("third", false)] {
            let place = open(&output).unwrap();
            let draft = place.draft("v1").unwrap();
            fs::write(draft.join(MANIFEST), "{}").unwrap();
            fs::write(draft.join(round), "").unwrap();
            if hlo {
                fs::write(place.draft_hlo("v1"), round).unwrap();
            }
            assert_eq!(place.put_all(&["v1".to_owned()]).unwrap(), [output.join("v1")]);
            drop(place);
            assert_eq!(
                names(&output).len(),
                if hlo { 2 } else { 1 },
                "an old HLO file is replaced with its version"
            );
            let inside = names(&output.join("v1"));
            assert!(inside.len() == 2 && inside.contains(&round.to_owned()), "{inside:?}");
        }
        assert_eq!(names(root.path()), ["a"]);
    }

    #[test]
    fn all_versions_are_replaced_or_none() {
        let root = TempDir::new().unwrap();
        let versions = ["v1", "v2", "v3"].map(str::to_owned);
        let output = root.path().join("out");
        let write = |round: &str, built: &[String]| {
            let place = OutputFolder::open(&output, &versions).unwrap();
            for version in built {
                fs::write(place.draft(version).unwrap().join(MANIFEST), round).unwrap();
                fs::write(place.draft_hlo(version), round).unwrap();
            }
            place.put_all(&versions)
        };
        let content = || {
            let manifests = versions.each_ref().map(|version| output.join(version).join(MANIFEST));
            let files = versions.each_ref().map(|version| output.join(hlo_name(version)));
            [manifests, files]
                .concat()
                .iter()
                .map(|file| fs::read_to_string(file).unwrap())
                .collect::<Vec<_>>()
        };
        write("first", &versions).unwrap();
        // A missing draft cannot be moved.
        let error = write("second", &versions[..2]).unwrap_err().to_string();
        assert!(error.contains("v1, v2, v3") && error.ends_with("which is unchanged"), "{error}");
        assert_eq!(content(), ["first"; 6]);
        write("third", &versions).unwrap();
        assert_eq!(content(), ["third"; 6]);
        assert_eq!((names(root.path()).len(), names(&output).len()), (1, 6));
    }

    #[test]
    fn files_of_the_user_are_not_replaced() {
        let refused = |make: fn(&Path)| {
            let root = TempDir::new().unwrap();
            make(root.path());
            let before = names(root.path());
            let error = open(root.path()).unwrap_err().to_string();
            assert!(error.contains("did not write it"), "{error}");
            assert_eq!(names(root.path()), before);
        };
        refused(|root| fs::write(root.join("v1"), "mine").unwrap());
        refused(|root| {
            fs::create_dir(root.join("v1")).unwrap();
            fs::write(root.join("v1/notes.txt"), "mine").unwrap();
        });
        refused(|root| fs::write(root.join("v1_hlo.txt"), "mine").unwrap());
        refused(|root| {
            fs::create_dir_all(root.join("v1_hlo.txt")).unwrap();
        });
        let root = TempDir::new().unwrap();
        fs::create_dir(root.path().join("v1")).unwrap();
        fs::write(root.path().join("notes.txt"), "mine").unwrap();
        open(root.path()).expect("an empty folder and other files do not conflict");
    }

    #[test]
    fn errors_name_the_path_of_the_user() {
        let root = TempDir::new().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let error = open(&root.path().join("file")).unwrap_err().to_string();
        assert!(error.ends_with("/file is not a folder; choose another with -o"), "{error}");
        if Path::new("/proc/self").is_dir() {
            let error = open(Path::new("/proc/x")).unwrap_err().to_string();
            assert!(error.starts_with("cannot write to /proc (") && !error.contains("octile"), "{error}");
        }
    }
}
