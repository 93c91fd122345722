//! The operands of one instruction.

use super::scan::skip_comment;

/// The predicate of an instruction: `(%p3)`, `(!%p3)`, or `(%p3, %s4)` with the value otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicate<'a> {
    /// Whether it is negated.
    pub negated: bool,
    /// The register, for example `%p3_p0`.
    pub register: &'a str,
    /// The result if the predicate is false.
    pub otherwise: Option<&'a str>,
}

/// One operand, with the name that a comment such as `/*size_in_granules=*/` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand<'a> {
    /// The name, or empty.
    pub name: &'a str,
    /// The operand itself.
    pub text: &'a str,
}

/// The operands of one instruction, comments left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args<'a> {
    /// The predicate, if any.
    pub predicate: Option<Predicate<'a>>,
    /// The operands in order.
    pub operands: Vec<Operand<'a>>,
}

impl<'a> Args<'a> {
    /// Splits the text after an operation at its outermost commas.
    pub fn parse(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let mut args = Self::default();
        let (mut start, mut end) = (0, 0);
        let mut name = "";
        let mut depth = 0usize;
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'/' if bytes.get(at + 1) == Some(&b'*') => {
                    let after = skip_comment(bytes, at).unwrap_or(bytes.len());
                    let comment = text.get(at + 2..after.saturating_sub(2)).unwrap_or_default();
                    match comment.strip_suffix('=') {
                        Some(label) if is_blank(text, start, end) => {
                            name = label;
                            start = after;
                        }
                        // `vst [vmem:..] sm:$0xff /*vst_source=*/%v1`: a name also ends the previous operand.
                        Some(label) if depth == 0 => {
                            args.push(name, text.get(start..end).unwrap_or_default());
                            name = label;
                            start = after;
                        }
                        // `sbr.rel (%p3) /* loc("kernel.py":35:9) */ target bundleno = 127`
                        _ if is_blank(text, start, end) => start = after,
                        _ => {}
                    }
                    at = after;
                    end = end.max(start);
                    continue;
                }
                b'(' if depth == 0 && args.predicate.is_none() && args.operands.is_empty() => {
                    if let Some((predicate, after)) = predicate(text, at) {
                        args.push(name, text.get(start..at).unwrap_or_default());
                        args.predicate = Some(predicate);
                        // The comma after a predicate is not a separator.
                        let rest = text.get(after..).unwrap_or_default().trim_start();
                        let rest = rest.strip_prefix(',').unwrap_or(rest);
                        at = text.len() - rest.len();
                        (start, end, name) = (at, at, "");
                        continue;
                    }
                    depth += 1;
                }
                b'(' | b'[' => depth += 1,
                b')' | b']' => depth = depth.saturating_sub(1),
                b',' if depth == 0 => {
                    args.push(name, text.get(start..end).unwrap_or_default());
                    at += 1;
                    (start, end, name) = (at, at, "");
                    continue;
                }
                _ => {}
            }
            at += 1;
            if !byte.is_ascii_whitespace() {
                end = at;
            }
        }
        args.push(name, text.get(start..end).unwrap_or_default());
        args
    }

    fn push(&mut self, name: &'a str, text: &'a str) {
        let text = text.trim();
        if !text.is_empty() {
            self.operands.push(Operand { name, text });
        }
    }

    /// The operand at a position, or empty.
    pub fn get(&self, position: usize) -> &'a str {
        self.operands.get(position).map_or("", |operand| operand.text)
    }

    /// The operand of this name.
    pub fn named(&self, name: &str) -> Option<&'a str> {
        self.operands.iter().find(|o| o.name == name).map(|o| o.text)
    }
}

fn is_blank(text: &str, start: usize, end: usize) -> bool {
    text.get(start..end).unwrap_or_default().trim().is_empty()
}

/// `(!%p3_p0)` or `(%p3_p0, %s4_s1)` at `at`, and the offset behind it.
fn predicate(text: &str, at: usize) -> Option<(Predicate<'_>, usize)> {
    let inner = text.get(at + 1..)?;
    let close = inner.find(')')?;
    let inside = inner.get(..close)?;
    let negated = inside.starts_with('!');
    let inside = inside.trim_start_matches('!');
    if !inside.starts_with('%') {
        return None;
    }
    let (register, otherwise) = match inside.split_once(',') {
        Some((register, otherwise)) => (register.trim(), Some(otherwise.trim())),
        None => (inside.trim(), None),
    };
    let predicate = Predicate { negated, register, otherwise };
    Some((predicate, at + 1 + close + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicates_names_and_comments() {
        let args =
            Args::parse(" [thread:$0]  (%p8_p1), /*hbm=*/%s1_s0, /*size_in_granules=*/512 /* a, /*b=*/ c */");
        let predicate = args.predicate.unwrap();
        assert_eq!((predicate.register, predicate.negated), ("%p8_p1", false));
        assert_eq!(args.get(0), "[thread:$0]");
        assert_eq!(args.named("hbm"), Some("%s1_s0"));
        assert_eq!(args.named("size_in_granules"), Some("512"));
        assert_eq!(args.operands.len(), 3);
    }

    #[test]
    fn a_move_says_what_it_gives_otherwise() {
        let args = Args::parse(" (!%p1_p0, %s7_s3), [#allocation2]");
        let predicate = args.predicate.unwrap();
        assert_eq!((predicate.negated, predicate.otherwise), (true, Some("%s7_s3")));
        assert_eq!(args.get(0), "[#allocation2]");
    }

    #[test]
    fn a_store_names_its_source() {
        let args = Args::parse(" [vmem:[#allocation7 + $0x8] sm:$0xff] (!%p7_p1), /*vst_source=*/%v1_v0");
        assert_eq!(args.get(0), "[vmem:[#allocation7 + $0x8] sm:$0xff]");
        assert_eq!(args.named("vst_source"), Some("%v1_v0"));
        let bare = Args::parse(" [vmem:[%s4_s0] sm:$0xff] /*vst_source=*/%v1_v0 /* x */");
        assert_eq!(bare.named("vst_source"), Some("%v1_v0"));
        assert_eq!(bare.operands.len(), 2);
    }
}
