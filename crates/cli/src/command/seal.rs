//! A seal at the end of a manifest, by which it is known to be as it was written.

use anyhow::Result;
use serde::Serialize;

/// What the seal is called in the manifest, up to its number.
const SEAL: &str = ",\n  \"crc32\": ";
/// How a manifest ends, without and with the seal.
const END: &str = "\n}";

/// The text of a manifest, with the seal.
pub fn sealed(manifest: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(manifest)?;
    let crc32 = crc32fast::hash(text.as_bytes());
    let open = text.strip_suffix(END).expect("a manifest has fields");
    Ok(format!("{open}{SEAL}{crc32}{END}\n"))
}

/// Whether a manifest is as it was written, but for how its lines end. Those without a seal, as earlier versions wrote them, are taken for that.
pub fn is_intact(text: &str) -> bool {
    let text = &text.replace("\r\n", "\n");
    let seal = text.trim_end().strip_suffix(END).and_then(|text| text.rsplit_once(SEAL));
    match seal.and_then(|(open, crc32)| Some((open, crc32.parse::<u32>().ok()?))) {
        Some((open, written)) => crc32fast::hash(format!("{open}{END}").as_bytes()) == written,
        None => !has_seal(text),
    }
}

/// Whether there is a seal among the values of the manifest itself, however they are laid out.
fn has_seal(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok_and(|manifest| manifest.get("crc32").is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_changed_is_known() {
        let manifest = json!({ "files": [{ "crc32": 7, "name": "a" }], "stages": 3 });
        let text = sealed(&manifest).unwrap();
        assert!(is_intact(&text) && text.ends_with("\n}\n"), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["stages"], 3);
        assert!(is_intact(&text.replace('\n', "\r\n")) && is_intact(text.trim_end()));
        assert!(!is_intact(&text.replace("\"stages\": 3", "\"stages\": 2")));
        // Laid out by another program, the numbers may have been changed as well.
        assert!(!is_intact(&read.to_string()));
        // Without a seal, as earlier versions wrote them.
        assert!(is_intact(&manifest.to_string()));
        assert!(is_intact(&serde_json::to_string_pretty(&manifest).unwrap()));
        assert!(is_intact("") && is_intact("{") && is_intact("no JSON"));
    }
}
