//! Escapes control characters of untrusted text.

use std::{borrow::Cow, fmt::Write, path::Path};

/// Escapes a path for one line of output.
pub fn shown(path: &Path) -> String {
    one_line(&path.to_string_lossy())
}

/// Escapes a name for one line of output: as [`printable`], and line ends and tabs too.
pub fn one_line(name: &str) -> String {
    printable(name).replace('\n', "\\u000a").replace('\t', "\\u0009")
}

/// Text of several lines, such as the last words of a compiler, as one.
pub fn joined_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    one_line(&lines.join(" "))
}

/// Writes control and other invisible characters as `\\u001b`, as JSON does, so that JSON keeps its meaning.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Control characters except line ends and tabs, direction marks, and zero-width characters.
fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert!(matches!(printable("plain, × and\n\ttabs"), Cow::Borrowed(_)));
        assert_eq!(printable("\u{1b}[2Jx\u{7}\r\u{7f}"), "\\u001b[2Jx\\u0007\\u000d\\u007f");
        assert_eq!(printable("\u{9b}31m \u{202e}ssap\u{2066}"), "\\u009b31m \\u202essap\\u2066");
        assert_eq!(printable("\u{e0041}"), "\\udb40\\udc41");
    }

    #[test]
    fn a_name_is_one_line() {
        assert_eq!(one_line("plain name"), "plain name");
        assert_eq!(shown(Path::new("a\nPASS\t\u{1b}")), "a\\u000aPASS\\u0009\\u001b");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let hostile = "a\u{9b}b\\\u{202e}\u{e0041}\u{7f}\u{1b}\"";
        let json = serde_json::to_string(hostile).unwrap();
        let shown = printable(&json);
        assert!(!shown.contains(is_hidden));
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), hostile);
    }
}
