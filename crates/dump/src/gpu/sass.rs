//! SASS: one instruction per line, as `nvdisasm -c` prints it.

use std::collections::HashSet;

use super::{Code, Function, Language, ptx::split_guard};
use crate::source::Span;

/// Reads a whole file.
pub fn parse(text: &str) -> Code<'_> {
    let mut code = Code::new(text, Language::Sass);
    if u32::try_from(text.len()).is_err() {
        code.complain(0, "the file is larger than 4 GiB");
        return code;
    }
    let mut offset = 0;
    let mut foreign = false;
    for line in text.split_inclusive('\n') {
        let known = self::line(&mut code, line, offset);
        if !known && !foreign {
            code.complain(offset, "this is no line of a SASS listing");
        }
        foreign = !known;
        offset += line.len();
    }
    if let Some(what) = cut_off(text).filter(|_| code.damage.is_empty()) {
        code.complain(text.len(), &what);
    }
    code
}

/// Why a listing cannot be whole: a branch leads to where nothing is, or the code ends before it is padded.
fn cut_off(text: &str) -> Option<String> {
    /// Code is padded to whole cache lines.
    const LINE: u64 = 128;
    const INSTRUCTION: u64 = 16;
    let (mut labels, mut targets, mut last) = (HashSet::new(), Vec::new(), None);
    for line in text.lines().map(str::trim) {
        if let Some(label) = line.strip_suffix(':') {
            labels.insert(label);
        } else if let Some((address, code)) = line.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) {
            let target = code.split_once("`(").and_then(|(_, rest)| rest.split(')').next());
            targets.extend(target.filter(|target| target.starts_with(".L")));
            last = u64::from_str_radix(address, 16).ok().filter(|_| code.contains(';')).or(last);
        }
    }
    if let Some(target) = targets.into_iter().find(|target| !labels.contains(target)) {
        return Some(format!("a branch leads to {target}, which is not in the listing: it is cut off"));
    }
    let padded = last.is_none_or(|last| (last + INSTRUCTION).is_multiple_of(LINE));
    (!padded).then(|| "the code ends before it is padded: the listing is cut off".to_owned())
}

/// Reads one line; `false` where it is foreign.
fn line(code: &mut Code<'_>, line: &str, offset: usize) -> bool {
    let trimmed = line.trim();
    let start = offset + (line.len() - line.trim_start().len());
    if let Some(name) = trimmed.strip_prefix(".text.").and_then(|name| name.strip_suffix(':')) {
        let name_start = start + ".text.".len();
        let name = Span::new(name_start, name_start + name.len());
        let (instructions, labels) = (Vec::new(), Vec::new());
        let header = Span::default();
        code.functions.push(Function {
            name,
            header,
            registers: Vec::new(),
            is_entry: true,
            instructions,
            labels,
        });
        return true;
    }
    if let Some(target) = trimmed.strip_prefix(".target") {
        let target = target.trim();
        let at = start + trimmed.len() - target.len();
        code.target = Span::new(at, at + target.len());
        return true;
    }
    let Some((address, after)) = trimmed.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) else {
        // Directives, labels, comments and dual-issue braces.
        let label = trimmed.strip_suffix(':').is_some_and(|name| !name.contains(char::is_whitespace));
        if label {
            code.label(Span::new(start, start + trimmed.len() - 1));
        }
        return trimmed.is_empty()
            || label
            || trimmed.starts_with(['.', '{', '}'])
            || trimmed.starts_with("//");
    };
    let is_hex = |text: &str| text.trim_start_matches("0x").bytes().all(|b| b.is_ascii_hexdigit());
    if !is_hex(address.trim()) {
        return false;
    }
    // A line may hold only the second half of an encoding.
    let Some(end) = after.find(';') else { return after.trim().is_empty() };
    let body = start + trimmed.len() - after.len();
    code.push(split_guard(code.text, body, body + end));
    true
}
