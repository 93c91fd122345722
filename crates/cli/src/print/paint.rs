//! Colors of verdicts and headings.

use anstyle::{AnsiColor, Style};

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const HEADING: Style = Style::new().bold();

/// Colors the verdict that starts or ends a line, and headings between rules. The stream removes the colors
/// where they are not wanted.
pub(super) fn verdicts(text: &str) -> String {
    let mut painted = String::with_capacity(text.len());
    let mut in_heading = false;
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches('\n');
        if content.starts_with("====") {
            in_heading = !in_heading;
            painted += line;
        } else if in_heading {
            painted += &format!("{HEADING}{content}{HEADING:#}{}", &line[content.len()..]);
        } else {
            painted += &verdict(line);
        }
    }
    painted
}

fn verdict(line: &str) -> String {
    for (word, style) in
        [("PASS", GOOD), ("FAIL", BAD), ("ALL TESTS PASSED", GOOD), ("SOME TESTS FAILED", BAD)]
    {
        let start = line.len() - line.trim_start().len();
        let is_whole = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric());
        if let Some(rest) = line[start..].strip_prefix(word).filter(|rest| is_whole(rest)) {
            return format!("{}{style}{word}{style:#}{rest}", &line[..start]);
        }
        let content = line.trim_end();
        if let Some(before) = content.strip_suffix(word).filter(|before| before.ends_with(' ')) {
            return format!("{before}{style}{word}{style:#}{}", &line[content.len()..]);
        }
    }
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_colored_at_either_end_of_a_line() {
        let plain = "====\nTITLE\n====\n  v1 Auto 1e-6  PASS\n  FAIL checks\nPASSED is no verdict\nPASS";
        let painted = verdicts(plain);
        assert_eq!(anstream::adapter::strip_str(&painted).to_string(), plain);
        assert_eq!(
            painted.matches("\u{1b}[1m\u{1b}[32m").count() + painted.matches("\u{1b}[1m\u{1b}[31m").count(),
            3
        );
        assert!(painted.contains("\u{1b}[1mTITLE\u{1b}[0m\n"), "{painted:?}");
    }
}
