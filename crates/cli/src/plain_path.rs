//! Paths that come out of files.

use std::{fmt, path::Path};

use serde::{Deserialize, Serialize, de::Error};

/// A relative path of plain components, so that joined to a folder it stays in that folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PlainPath(String);

impl PlainPath {
    /// Checks a path as a manifest has it, with `/` between components. `None` where it is absolute, leads upwards,
    /// or means something else on another system.
    pub fn new(path: &str) -> Option<Self> {
        // A backslash separates and a colon follows a drive on Windows; control characters have no business in names.
        let is_bad = |c: char| c.is_control() || matches!(c, '\\' | ':');
        let is_plain = |component: &str| !matches!(component, "" | "." | "..");
        let plain = !path.contains(is_bad) && path.split('/').all(is_plain);
        plain.then(|| Self(path.to_owned()))
    }

    /// The text of the path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// For joining to a folder.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// The folders above the last component, joined by `/`; empty where there are none.
    pub fn folder(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// The last component.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl fmt::Display for PlainPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for PlainPath {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let path = String::deserialize(from)?;
        Self::new(&path).ok_or_else(|| {
            D::Error::custom(format_args!(
                "{path:?} is not the path of a file in this folder: only names joined by / are allowed"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_components_are_taken() {
        for path in ["kernel.ptx", "quantize/kernel.ptx", "a b/c", ".hidden", "..a", "ä"] {
            let plain = PlainPath::new(path).unwrap();
            let joined = Path::new("/folder").join(plain.as_path());
            assert!(joined.starts_with("/folder") && joined.ends_with(path), "{path}");
        }
        let refused = [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../a",
            "a/../b",
            "a/..",
            ".",
            "./a",
            "a/./b",
            "a//b",
            "a/",
            "a\\b",
            "\\\\host\\a",
            "C:\\a",
            "C:a",
            "a\0b",
            "a\nb",
            "\u{1b}[31m",
        ];
        for path in refused {
            assert_eq!(PlainPath::new(path), None, "{path:?}");
            let read = serde_json::from_value::<PlainPath>(path.into());
            assert!(read.unwrap_err().to_string().contains("is not the path of a file in this folder"));
        }
        let helper = PlainPath::new("quantize/kernel.ptx").unwrap();
        assert_eq!((helper.folder(), helper.name()), ("quantize", "kernel.ptx"));
    }
}
