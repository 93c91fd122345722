//! A seal at the end of a manifest: the SHA-256 of everything before it.
//!
//! It shows that something was changed by mistake or in passing. Whoever computes the seal anew can write what they
//! like; where that matters, keep the seal elsewhere and compare: it covers every byte of the manifest, and through the
//! checksums in it every byte of the files.

use anyhow::Result;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The key of the seal.
pub const KEY: &str = "sha256";
/// How a manifest ends without its seal.
const END: &str = "\n}";

/// What became of a seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// The manifest is as it was written.
    Intact,
    /// It is not.
    Broken,
    /// There is none at its end.
    Missing,
}

/// Computes the checksum of a file.
pub fn checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a manifest, with its seal.
pub fn sealed(manifest: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(manifest)?;
    let open = text.strip_suffix(END).expect("a manifest has fields");
    Ok(format!("{open}{}{}\"{END}\n", opening(), checksum(text.as_bytes())))
}

/// Looks at the seal of a manifest.
pub fn examine(text: &str) -> Seal {
    let sealed = || text.trim_end().strip_suffix(END)?.strip_suffix('"')?.rsplit_once(&opening());
    match sealed() {
        Some((open, seal)) if checksum(format!("{open}{END}").as_bytes()) == seal => Seal::Intact,
        Some(_) => Seal::Broken,
        None => Seal::Missing,
    }
}

/// What stands before the digits.
fn opening() -> String {
    format!(",\n  \"{KEY}\": \"")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_changed_is_known() {
        let manifest = json!({ "files": [{ "sha256": "7", "name": "a" }], "stages": 3 });
        let text = sealed(&manifest).unwrap();
        assert!(text.ends_with("\"\n}\n"), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["stages"], 3);
        assert_eq!([examine(&text), examine(text.trim_end())], [Seal::Intact; 2]);
        assert_eq!(examine(&text.replace("\"stages\": 3", "\"stages\": 2")), Seal::Broken);
        for byte in 0..text.trim_end().len() {
            let mut changed = text.clone().into_bytes();
            changed[byte] ^= 1;
            assert_ne!(examine(&String::from_utf8(changed).unwrap()), Seal::Intact, "byte {byte}");
        }
        // Laid out by another program, the numbers may have been changed as well.
        assert_eq!(examine(&read.to_string()), Seal::Missing);
        assert_eq!(examine(&serde_json::to_string_pretty(&manifest).unwrap()), Seal::Missing);
        assert_eq!([examine(""), examine("{"), examine("no JSON")], [Seal::Missing; 3]);
    }

    #[test]
    fn the_checksum_is_the_one_of_sha256sum() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(checksum(b""), empty);
    }
}
