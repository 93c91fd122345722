//! Output files and streams: what a command writes beside, or instead of, its report.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, bail};
use octile_harness::record::{Document, Schema};
use octile_runtime::cleanup::Temporary;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::{
    abandoned,
    args::JsonArgs,
    print::{self, printable},
};

/// Where a document goes: `-` is standard output, in place of the report.
#[derive(Debug)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// A file.
    File(OutputFile),
}

impl Destination {
    /// Opens the destination before the work starts, so that a bad path fails early.
    pub fn open(path: &Path) -> Result<Self> {
        match path.as_os_str() == "-" {
            true => Ok(Self::Stdout),
            false => OutputFile::open(path).map(Self::File),
        }
    }

    /// Opens the destination of `--json`, where it was given.
    pub fn open_json(args: &JsonArgs) -> Result<Option<Self>> {
        args.json.as_deref().map(Self::open).transpose()
    }

    /// Whether the document takes the place of the report on standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    /// Rejects a file that the same command also uses for something else.
    pub fn require_apart(&self, used: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        match self {
            Self::Stdout => Ok(()),
            Self::File(file) => file.require_apart(used),
        }
    }

    /// Rejects a file in a folder that the same command replaces.
    pub fn require_outside(&self, replaced: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        match self {
            Self::Stdout => Ok(()),
            Self::File(file) => file.require_outside(replaced),
        }
    }

    /// Writes a JSON document: the schema, then the fields of `body`, which must serialize as an object.
    pub fn finish_json(self, schema: Schema, body: &impl Serialize) -> Result<()> {
        self.finish_plain_json(&Document { schema, body })
    }

    /// Writes JSON of a format that others define.
    pub fn finish_plain_json(self, value: &impl Serialize) -> Result<()> {
        self.finish(&(serde_json::to_string_pretty(value)? + "\n"))
    }

    /// Writes `text`; a file appears only now.
    pub fn finish(self, text: &str) -> Result<()> {
        match self {
            Self::Stdout => print::emit_document(text),
            Self::File(file) => file.finish(text)?,
        }
        Ok(())
    }
}

/// Name prefix of incomplete files.
const DRAFT: &str = ".octile-draft-";

/// A file that appears complete or not at all.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    draft: Temporary<NamedTempFile>,
}

impl OutputFile {
    /// Prepares to write `path`. Follows a link; rejects anything but a regular file.
    pub fn open(path: &Path) -> Result<Self> {
        let target = resolved(path);
        if target.is_symlink() {
            bail!("cannot write {}: it is a dangling link; remove it or name another file", path.display());
        }
        if target.exists() && is_standard_stream(&target) {
            bail!(
                "cannot write {}: the report goes there; use - for standard output, or name another file",
                path.display()
            );
        }
        if target.exists() && !target.is_file() {
            bail!("cannot write {}: it is not a regular file", path.display());
        }
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            bail!("cannot write {}: folder {} does not exist", path.display(), folder.display());
        }
        abandoned::remove(folder, DRAFT);
        let draft = Temporary::new(|| draft_of(&target, folder)).map_err(|error| {
            // The full error names the temporary file, which the user does not know.
            let reason = std::io::Error::from(error.kind());
            anyhow!("cannot write {} ({reason}): name a file in another folder", path.display())
        })?;
        Ok(Self { path: target, draft })
    }

    /// Rejects a file that the same command also uses for something else.
    pub fn require_apart(&self, used: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        match used.into_iter().find(|other| resolved(other) == self.path) {
            None => Ok(()),
            Some(other) => bail!(
                "cannot write {}: the same command uses that file for something else; name another",
                other.display()
            ),
        }
    }

    fn require_outside(&self, replaced: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        match replaced.into_iter().find(|folder| self.path.starts_with(resolved(folder))) {
            None => Ok(()),
            Some(folder) => bail!(
                "cannot write {}: the same command replaces all of {}; name a file elsewhere",
                self.path.display(),
                folder.display()
            ),
        }
    }

    fn finish(self, text: &str) -> Result<()> {
        self.finish_bytes(printable(text).as_bytes())
    }

    /// Writes data that is not text; the file appears only now.
    pub fn finish_bytes(mut self, bytes: &[u8]) -> Result<()> {
        let context = format!("cannot write {}", self.path.display());
        self.draft.write_all(bytes).with_context(|| context.clone())?;
        let path = self.path;
        self.draft.finish(|draft| draft.persist(path)).map_err(|failure| failure.error).context(context)?;
        Ok(())
    }
}

/// Canonical path of a file that may not exist yet.
fn resolved(path: &Path) -> PathBuf {
    let folder = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let in_folder = || Some(std::fs::canonicalize(folder(path)).ok()?.join(path.file_name()?));
    std::fs::canonicalize(path).ok().or_else(in_folder).unwrap_or_else(|| path.to_owned())
}

/// Temporary file that becomes `target`. A new file gets the permissions of the umask; one that replaces
/// another gets its mode, group and, where permitted, owner.
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
    // Private until the mode is final: a descriptor opened earlier would keep its access.
    let draft = builder.permissions(Permissions::from_mode(0o600)).tempfile_in(folder)?;
    let file = draft.as_file();
    let has_group = fchown(file, None, Some(replaced.gid())).is_ok();
    let _ = fchown(file, Some(replaced.uid()), None);
    // Drop group permissions meant for another group, and setuid and setgid.
    let granted = if has_group { 0o777 } else { 0o707 };
    file.set_permissions(Permissions::from_mode(replaced.mode() & granted))?;
    Ok(draft)
}

#[cfg(not(unix))]
fn draft_of(_: &Path, folder: &Path) -> std::io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(DRAFT).tempfile_in(folder)
}

/// Whether a file is standard output or standard error, such as `/dev/stdout`.
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
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_dash_is_standard_output() {
        assert!(Destination::open(Path::new("-")).unwrap().is_stdout());
    }

    #[test]
    fn abandoned_temporary_files_are_removed() {
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
    fn a_replaced_file_keeps_its_permissions() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let mode = |name: &str| path(name).metadata().unwrap().permissions().mode() & 0o7777;
        for (name, before) in [("private", 0o600), ("shared", 0o664), ("readable", 0o444)] {
            std::fs::write(path(name), "old").unwrap();
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(before)).unwrap();
            let output = OutputFile::open(&path(name)).unwrap();
            output.finish("new").unwrap();
            assert_eq!(
                (mode(name), std::fs::read_to_string(path(name)).unwrap()),
                (before, "new".to_owned())
            );
        }
        symlink("private", path("link")).unwrap();
        OutputFile::open(&path("link")).unwrap().finish("through the link").unwrap();
        assert!(path("link").is_symlink());
        assert_eq!(std::fs::read_to_string(path("private")).unwrap(), "through the link");
        assert_eq!(mode("private"), 0o600);
        symlink("nowhere", path("dangling")).unwrap();
        let error = OutputFile::open(&path("dangling")).map(drop).unwrap_err();
        assert!(error.to_string().contains("a dangling link"), "{error}");
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
        output.finish("text").unwrap();
        assert_eq!(std::fs::read_to_string(path("new")).unwrap(), "text");
    }
}
