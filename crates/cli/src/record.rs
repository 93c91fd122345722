//! Results as files.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, Result, anyhow, bail};
use octile_core::Problem;
use octile_runtime::cleanup::Temporary;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::{abandoned, print::printable};

/// When and with what a record was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Provenance {
    /// Date and time, UTC.
    pub date: String,
    /// Version of Octile.
    pub version: &'static str,
}

impl Provenance {
    /// Now, by this program.
    pub fn now() -> Self {
        let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        Self { date, version: env!("CARGO_PKG_VERSION") }
    }
}

/// A problem, as records have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProblemFields {
    m: usize,
    n: usize,
    k: usize,
    quant_block: usize,
    x: String,
    out: String,
}

impl From<&Problem> for ProblemFields {
    fn from(problem: &Problem) -> Self {
        let Problem { m, n, k, quant_block, x, out } = problem;
        let (x, out) = (x.to_string(), out.to_string());
        Self { m: *m, n: *n, k: *k, quant_block: quant_block.size(), x, out }
    }
}

/// How the names of files begin that are not whole yet.
const DRAFT: &str = ".octile-draft-";

/// A file to be: opened before the work, so that a bad path is known at once, and there only when whole.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    draft: Temporary<NamedTempFile>,
}

impl OutputFile {
    /// Prepares to write `path`. A link is followed; what is no regular file is left alone.
    pub fn open(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            bail!(
                "cannot write to the standard output, which has the report: name a file (./- if it is to be called that)"
            );
        }
        let target = resolved(path);
        if target.is_symlink() {
            bail!(
                "cannot write {}: it is a link that leads nowhere, so remove it or name another file",
                path.display()
            );
        }
        if target.exists() && is_standard_stream(&target) {
            bail!("cannot write {}: the report goes there, so name another file", path.display());
        }
        if target.exists() && !target.is_file() {
            bail!("cannot write {}: it exists, and is not a regular file", path.display());
        }
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            bail!("cannot write {}: there is no folder {}", path.display(), folder.display());
        }
        abandoned::remove(folder, DRAFT);
        let draft = Temporary::new(|| draft_of(&target, folder)).map_err(|error| {
            // The error names a file that the user never heard of; what kind it is says enough.
            let reason = std::io::Error::from(error.kind());
            anyhow!("cannot write {} ({reason}): name a file in another folder", path.display())
        })?;
        Ok(Self { path: target, draft })
    }

    /// Refuses to replace a file that the same command uses.
    pub fn require_apart(&self, used: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        match used.into_iter().find(|other| resolved(other) == self.path) {
            None => Ok(()),
            Some(other) => bail!(
                "cannot write {}: the same command uses that file for something else, so name another",
                other.display()
            ),
        }
    }

    /// Refuses a place in a folder that the same command replaces.
    pub fn require_outside(&self, replaced: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        match replaced.into_iter().find(|folder| self.path.starts_with(resolved(folder))) {
            None => Ok(()),
            Some(folder) => bail!(
                "cannot write {}: the same command replaces all of {}, so name a file elsewhere",
                self.path.display(),
                folder.display()
            ),
        }
    }

    /// Writes `value` as JSON.
    pub fn finish(self, value: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string_pretty(value)?;
        text.push('\n');
        self.finish_with(&text)
    }

    /// Writes `text`; only now does the file appear.
    pub fn finish_with(mut self, text: &str) -> Result<()> {
        let context = format!("cannot write {}", self.path.display());
        self.draft.write_all(printable(text).as_bytes()).with_context(|| context.clone())?;
        let path = self.path;
        self.draft.finish(|draft| draft.persist(path)).map_err(|failure| failure.error).context(context)?;
        Ok(())
    }
}

/// The file behind a path, by a name that is the same for all paths to it. It need not be there yet.
fn resolved(path: &Path) -> PathBuf {
    let folder = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let in_folder = || Some(std::fs::canonicalize(folder(path)).ok()?.join(path.file_name()?));
    std::fs::canonicalize(path).ok().or_else(in_folder).unwrap_or_else(|| path.to_owned())
}

/// What becomes the file `target`. A new one is for everyone whom the user's umask admits; one that takes the place of another is for
/// those whom that one admits, and has its owner where the system lets us.
#[cfg(unix)]
fn draft_of(target: &Path, folder: &Path) -> std::io::Result<NamedTempFile> {
    use std::{
        fs::Permissions,
        os::unix::fs::{MetadataExt, PermissionsExt, fchown},
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(DRAFT);
    let Ok(replaced) = target.metadata() else {
        return builder.permissions(Permissions::from_mode(0o666)).tempfile_in(folder);
    };
    // Private until it is as it should be: who opens it earlier could read on.
    let draft = builder.permissions(Permissions::from_mode(0o600)).tempfile_in(folder)?;
    let file = draft.as_file();
    let has_group = fchown(file, None, Some(replaced.gid())).is_ok();
    let _ = fchown(file, Some(replaced.uid()), None);
    // What was granted to another group is not for ours; and nothing that we write runs as somebody else.
    let granted = if has_group { 0o777 } else { 0o707 };
    file.set_permissions(Permissions::from_mode(replaced.mode() & granted))?;
    Ok(draft)
}

#[cfg(not(unix))]
fn draft_of(_: &Path, folder: &Path) -> std::io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(DRAFT).tempfile_in(folder)
}

/// Whether a file is what standard output or standard error leads to, as `/dev/stdout` is.
#[cfg(unix)]
fn is_standard_stream(target: &Path) -> bool {
    use std::os::{fd::AsFd, unix::fs::MetadataExt};
    let file = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let stream = |fd: std::os::fd::BorrowedFd<'_>| {
        Some(file(std::fs::File::from(fd.try_clone_to_owned().ok()?).metadata().ok()?))
    };
    let target = target.metadata().ok().map(file);
    let streams = [stream(std::io::stdout().as_fd()), stream(std::io::stderr().as_fd())];
    target.is_some() && streams.contains(&target)
}

#[cfg(not(unix))]
fn is_standard_stream(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_dash_is_not_taken_for_a_file() {
        let error = OutputFile::open(Path::new("-")).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("name a file"), "{error}");
    }

    #[test]
    fn what_was_interrupted_long_ago_is_removed() {
        let place = tempfile::tempdir().unwrap();
        for (name, age) in [("old", 2 * abandoned::AGE), ("new", Duration::ZERO)] {
            let file = std::fs::File::create(place.path().join(format!("{DRAFT}{name}"))).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        OutputFile::open(&place.path().join("output")).unwrap();
        let left: Vec<_> =
            std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [format!("{DRAFT}new").as_str()]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_replaced_by_one_for_the_same_people() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let mode = |name: &str| path(name).metadata().unwrap().permissions().mode() & 0o7777;
        for (name, before) in [("private", 0o600), ("shared", 0o664), ("readable", 0o444)] {
            std::fs::write(path(name), "old").unwrap();
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(before)).unwrap();
            let output = OutputFile::open(&path(name)).unwrap();
            output.finish_with("new").unwrap();
            assert_eq!(
                (mode(name), std::fs::read_to_string(path(name)).unwrap()),
                (before, "new".to_owned())
            );
        }
        symlink("private", path("link")).unwrap();
        OutputFile::open(&path("link")).unwrap().finish_with("through the link").unwrap();
        assert!(path("link").is_symlink());
        assert_eq!(std::fs::read_to_string(path("private")).unwrap(), "through the link");
        assert_eq!(mode("private"), 0o600);
        symlink("nowhere", path("dangling")).unwrap();
        let error = OutputFile::open(&path("dangling")).map(drop).unwrap_err();
        assert!(error.to_string().contains("a link that leads nowhere"), "{error}");
    }

    #[test]
    fn one_file_is_not_used_twice() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        std::fs::write(path("input"), "kept").unwrap();
        for (output, used) in [("input", "./input"), ("new", "./new")] {
            let error = OutputFile::open(&path(output)).unwrap().require_apart([path(used)]).unwrap_err();
            assert!(error.to_string().contains("for something else"), "{error}");
        }
        let output = OutputFile::open(&path("new")).unwrap();
        output.require_apart([path("input")]).unwrap();
        output.require_outside([path("input")]).unwrap();
        let error = output.require_outside([place.path().to_owned()]).unwrap_err();
        assert!(error.to_string().contains("replaces all of"), "{error}");
        output.finish_with("text").unwrap();
        assert_eq!(std::fs::read_to_string(path("new")).unwrap(), "text");
    }
}
