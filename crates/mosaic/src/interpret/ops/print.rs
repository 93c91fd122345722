//! `pl.debug_print`: scalars, vectors and memrefs that a kernel logs.

use std::fmt::Write;

use super::{Definition, effect, view::memref};
use crate::{
    attribute::Attr,
    interpret::{
        finding::Print,
        machine::{Machine, Stop},
        program::{Compiler, Made, Step},
        value::{Data, Value},
    },
    ir::Op,
    limits::MAX_PRINTS,
};

pub(super) const OPS: &[Definition] = &[
    effect("tpu.log", &["tag", "formatted"], log),
    effect("tpu.log_buffer", &["tag", "shape"], log_buffer),
    effect("tpu.trace_value", &["label"], trace_value),
];

/// Elements of a vector that are printed; the others are counted.
const SHOWN: usize = 64;

fn text(c: &Compiler<'_>, op: &Op, name: &str) -> Made<String> {
    match c.attribute(op, name)? {
        Attr::String(text) => Ok(text.clone()),
        other => Err(format!("attribute '{name}' is not a string: {other}").into()),
    }
}

/// Prints values; in formatted text `$0` stands for the first one.
fn log(c: &mut Compiler<'_>, op: &Op) -> Made {
    let (tag, formatted) = (text(c, op, "tag")?, c.flag(op, "formatted")?);
    for number in 0..op.operands.len() {
        c.element(c.operand(op, number)?)?;
        c.shape(c.operand(op, number)?)?;
    }
    Ok(Box::new(move |m, step| {
        let values: Vec<String> = (0..step.operands.len()).map(|i| shown(m.value(step, i))).collect();
        let text = match formatted {
            true => format_text(&tag, &values),
            false if values.is_empty() => tag.clone(),
            false => format!("{tag} {}", values.join(" ")),
        };
        print(m, step, text)
    }))
}

/// Replaces `$0`, `$1` and so on; other dollars stay.
fn format_text(tag: &str, values: &[String]) -> String {
    let mut text = String::with_capacity(tag.len());
    let mut rest = tag;
    while let Some((before, after)) = rest.split_once('$') {
        text += before;
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        match after[..digits].parse().ok().and_then(|number: usize| values.get(number)) {
            Some(value) => text += value,
            None => {
                text.push('$');
                text += &after[..digits];
            }
        }
        rest = &after[digits..];
    }
    text + rest
}

/// Prints the contents of a memref.
fn log_buffer(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 0)?;
    memref(c, op, 0)?;
    c.element(c.operand(op, 0)?)?;
    let tag = text(c, op, "tag")?;
    Ok(Box::new(move |m, step| {
        let view = m.view(step, 0).clone();
        m.clock.vector(view.elements(), step.line(), &step.name);
        let data = m.load(step, &view)?;
        let text = format!("{tag} {}", shown(&Value::Vector(data)));
        print(m, step, text)
    }))
}

/// A value in a trace of the chip's profiler.
fn trace_value(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 0)?;
    c.element(c.operand(op, 0)?)?;
    let label = text(c, op, "label")?;
    Ok(Box::new(move |m, step| {
        let text = format!("{label} {}", shown(m.value(step, 0)));
        print(m, step, text)
    }))
}

fn print(m: &mut Machine<'_>, step: &Step, text: String) -> Result<(), Stop> {
    m.clock.scalar();
    if m.prints.len() >= MAX_PRINTS {
        let message = format!("the kernel prints more than {MAX_PRINTS} times: print in fewer steps");
        return Err(Stop::Fault(step.place, message));
    }
    m.prints.push(Print { site: m.core_site(step), text });
    Ok(())
}

fn shown(value: &Value) -> String {
    match value {
        Value::Integer(value) => value.to_string(),
        Value::Float(value) | Value::Vector(Data::Float(value)) => value.to_string(),
        Value::Vector(Data::Integer(value)) => value.to_string(),
        Value::Vector(Data::Floats(values)) => list(values),
        Value::Vector(Data::Integers(values)) => list(values),
        other => unreachable!("numbers are printed, not {other:?}"),
    }
}

fn list<T: ToString>(values: &[T]) -> String {
    let first: Vec<String> = values.iter().take(SHOWN).map(ToString::to_string).collect();
    let mut text = format!("[{}", first.join(", "));
    if values.len() > SHOWN {
        let _ = write!(text, ", ... {} more", values.len() - SHOWN);
    }
    text + "]"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_names_its_values_by_number() {
        let values = ["7".to_owned(), "0.5".to_owned()];
        assert_eq!(format_text("i = $0, x = $1, $2 and $", &values), "i = 7, x = 0.5, $2 and $");
        assert_eq!(list(&[1; 65]).matches("1,").count(), 64);
        assert!(list(&[1; 65]).ends_with("... 1 more]"));
    }
}
