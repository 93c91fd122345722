//! SASS: one instruction per line, as `nvdisasm -c` prints it.

use std::collections::HashSet;

use octile_ptx::{
    ir::{Function, Instruction, Operand},
    split_guard,
};

use super::{Code, Language};

/// Reads a whole file.
pub(super) fn parse(text: &str) -> Code<'_> {
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
            code.complain(offset, "this is not a line of a SASS listing");
        }
        foreign = !known;
        offset += line.len();
    }
    if let Some(what) = truncation(text).filter(|_| code.damage.is_empty()) {
        code.complain(text.len(), &what);
    }
    code
}

/// Why a listing is truncated: a branch target is missing, or the code ends before its padding.
fn truncation(text: &str) -> Option<String> {
    /// Code is padded to whole instruction cache lines.
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
        return Some(format!("branch target {target} is not in the listing: it is truncated"));
    }
    let padded = last.is_none_or(|last| (last + INSTRUCTION).is_multiple_of(LINE));
    (!padded).then(|| "the code ends before its padding: the listing is truncated".to_owned())
}

/// Reads one line; `false` where it is foreign.
fn line<'a>(code: &mut Code<'a>, line: &'a str, offset: usize) -> bool {
    let trimmed = line.trim();
    let start = offset + (line.len() - line.trim_start().len());
    if let Some(name) = trimmed.strip_prefix(".text.").and_then(|name| name.strip_suffix(':')) {
        let position = code.position(start + ".text.".len());
        code.module.functions.push(Function {
            name: name.into(),
            is_entry: true,
            position,
            ..Function::default()
        });
        return true;
    }
    if let Some(target) = trimmed.strip_prefix(".target") {
        code.module.target = target.trim().into();
        return true;
    }
    let Some((address, after)) = trimmed.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) else {
        // Directives, labels, comments and dual-issue braces.
        let label = trimmed.strip_suffix(':').filter(|name| !name.contains(char::is_whitespace));
        if let Some(name) = label {
            code.label(name, start);
        }
        return trimmed.is_empty()
            || label.is_some()
            || trimmed.starts_with(['.', '{', '}'])
            || trimmed.starts_with("//");
    };
    let is_hex = |text: &str| text.trim_start_matches("0x").bytes().all(|b| b.is_ascii_hexdigit());
    if !is_hex(address.trim()) {
        return false;
    }
    // A line may hold only the second half of an encoding.
    let Some((statement, _)) = after.split_once(';') else { return after.trim().is_empty() };
    let (guard, opcode, operands) = split_guard(statement);
    let in_line = (opcode.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
    let position = code.position(offset + in_line);
    // Operands of SASS have no commas inside.
    let operands = operands.split(',').map(str::trim).filter(|operand| !operand.is_empty());
    let operands = operands.map(Operand::word).collect();
    code.push(Instruction { guard, opcode: opcode.into(), operands, position });
    true
}
