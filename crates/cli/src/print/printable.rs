//! Text from files of others, made harmless for a terminal.

use std::{borrow::Cow, fmt::Write, path::Path};

/// A path in a sentence: its name may be anyone's, and forges no lines.
pub fn shown(path: &Path) -> String {
    one_line(&path.to_string_lossy())
}

/// A name as part of a line: as [`printable`], and what ends a line is written out too.
pub fn one_line(name: &str) -> String {
    printable(name).replace('\n', "\\u000a").replace('\t', "\\u0009")
}

/// Writes characters that steer a terminal, or change how the text around them is shown, as `\\u001b`. That is also how JSON
/// writes them, so that text which is JSON stays what it was.
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

/// Controls but for the ends of lines and tabs, marks of writing direction, and what takes no space.
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
    fn what_steers_a_terminal_is_shown() {
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
    fn json_stays_what_it_was() {
        let hostile = "a\u{9b}b\\\u{202e}\u{e0041}\u{7f}\u{1b}\"";
        let json = serde_json::to_string(hostile).unwrap();
        let shown = printable(&json);
        assert!(!shown.contains(is_hidden));
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), hostile);
    }
}
