//! Operands.

use crate::{ir::Operand, limits::MAX_OPERAND_NESTING};

/// Whether every bracket is closed by one of its kind, and none are nested too deeply.
pub(super) fn brackets_match(operands: &str) -> bool {
    let mut open = Vec::new();
    operands.bytes().all(|byte| match byte {
        b'(' | b'[' | b'{' => {
            open.push(byte);
            open.len() <= MAX_OPERAND_NESTING
        }
        b')' => open.pop() == Some(b'('),
        b']' => open.pop() == Some(b'['),
        b'}' => open.pop() == Some(b'{'),
        _ => true,
    }) && open.is_empty()
}

/// Operands between commas, of text whose brackets match.
pub(super) fn operands(text: &str) -> Vec<Operand<'_>> {
    split(text).into_iter().map(operand).collect()
}

fn operand(text: &str) -> Operand<'_> {
    // `[a][b]` is not one address.
    let enclosed = |open: char, close: char| {
        text.strip_prefix(open)?.strip_suffix(close).filter(|inner| brackets_match(inner))
    };
    if let Some(items) = enclosed('[', ']') {
        Operand::Address(split(items).into_iter().map(address_item).collect())
    } else if let Some(items) = enclosed('{', '}') {
        Operand::Vector(operands(items))
    } else if let Some(items) = enclosed('(', ')') {
        Operand::List(operands(items))
    } else if let Some((first, second)) = text.split_once('|') {
        Operand::Pair(first.trim_end().into(), second.trim_start().into())
    } else {
        Operand::word(text)
    }
}

/// What is between the commas of an address.
fn address_item(text: &str) -> Operand<'_> {
    match text.split_once('+') {
        Some((base, offset)) if !text.starts_with(['{', '(', '[']) => {
            Operand::Offset(base.trim_end().into(), offset.trim_start().into())
        }
        _ => operand(text),
    }
}

/// Splits at commas outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.extend(text.get(start..at).map(str::trim));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..).map(str::trim).filter(|last| !last.is_empty()));
    parts
}
