//! Prints MLIR text: custom forms for the operations that kernels use, the generic form for all others. Both
//! parse back.

mod forms;
mod stable;

pub(crate) use forms::{FLOAT_PREDICATES, INT_PREDICATES, constant_type};
pub use stable::Stable;

use std::{
    collections::{HashMap, HashSet},
    fmt::{self, Display, Write},
};

use crate::{
    attribute::{Attributes, Symbol, quote},
    ir::{Function, Module, Op, Region, Value, Visibility},
    types::{Type, join},
};

impl Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("module ")?;
        if let Some(name) = &self.name {
            write!(f, "{} ", Symbol(name))?;
        }
        if !self.attributes.is_empty() {
            write!(f, "attributes {} ", self.attributes)?;
        }
        f.write_str("{\n")?;
        for function in &self.functions {
            Printer::new(function).function(f)?;
        }
        f.write_str("}\n")
    }
}

/// Prints one function; tracks value names.
struct Printer<'a> {
    function: &'a Function,
    names: Vec<String>,
}

impl<'a> Printer<'a> {
    fn new(function: &'a Function) -> Self {
        let named = function.values.iter().filter_map(|value| value.name.as_deref());
        let given: HashSet<&str> = named.collect();
        let mut uses: HashMap<&str, usize> = HashMap::new();
        let mut numbered = 0;
        let mut spell = |name: Option<&'a str>| match name {
            Some(name) => {
                let uses = uses.entry(name).or_default();
                *uses += 1;
                if *uses == 1 {
                    return format!("%{name}");
                }
                // A suffixed name may clash with another value's own name.
                while given.contains(format!("{name}_v{}", *uses - 1).as_str()) {
                    *uses += 1;
                }
                format!("%{name}_v{}", *uses - 1)
            }
            None => {
                numbered += 1;
                format!("%{}", numbered - 1)
            }
        };
        let names = function.values.iter().map(|v| spell(v.name.as_deref())).collect();
        Self { function, names }
    }

    fn name(&self, value: Value) -> &str {
        &self.names[value.index()]
    }

    fn list(&self, values: &[Value]) -> String {
        join(values.iter().map(|&v| self.name(v)), ", ")
    }

    fn ty(&self, value: Value) -> &Type {
        self.function.ty(value)
    }

    fn types(&self, values: &[Value]) -> String {
        join(values.iter().map(|&v| self.ty(v)), ", ")
    }

    fn typed(&self, values: &[Value]) -> String {
        join(values.iter().map(|&v| format!("{}: {}", self.name(v), self.ty(v))), ", ")
    }

    fn function(&self, out: &mut impl Write) -> fmt::Result {
        let function = self.function;
        let visibility = match function.visibility {
            Visibility::Public => "",
            Visibility::Private => "private ",
        };
        let arguments = self.typed(&function.body.arguments);
        write!(out, "  func.func {visibility}{}({arguments})", Symbol(&function.name))?;
        if !function.results.is_empty() {
            write!(out, " -> ({})", join(&function.results, ", "))?;
        }
        if !function.attributes.is_empty() {
            write!(out, " attributes {}", function.attributes)?;
        }
        out.write_str(" {\n")?;
        self.ops(&function.body.ops, 2, out)?;
        out.write_str("  }\n")
    }

    fn ops(&self, ops: &[Op], depth: usize, out: &mut impl Write) -> fmt::Result {
        for op in ops {
            write!(out, "{:width$}", "", width = 2 * depth)?;
            if !op.results.is_empty() {
                write!(out, "{} = ", self.list(&op.results))?;
            }
            if !self.short_form(op, depth, out)? {
                self.generic_form(op, depth, out)?;
            }
            if let Some(location) = &op.location {
                out.write_str(" loc(")?;
                quote(location, out)?;
                out.write_char(')')?;
            }
            out.write_char('\n')?;
        }
        Ok(())
    }

    /// `"name"(operands) ({region}) {attributes} : (types) -> types`.
    fn generic_form(&self, op: &Op, depth: usize, out: &mut impl Write) -> fmt::Result {
        write!(out, "\"{}\"({})", op.name, self.list(&op.operands))?;
        for (i, region) in op.regions.iter().enumerate() {
            out.write_str(if i == 0 { " (" } else { ", " })?;
            self.block(region, depth, out)?;
        }
        if !op.regions.is_empty() {
            out.write_char(')')?;
        }
        self.braces(&op.attributes, &[], out)?;
        let results = self.types(&op.results);
        write!(out, " : ({}) -> ", self.types(&op.operands))?;
        match op.results.len() {
            // A function type without parentheses would read as a list of results.
            1 if !results.starts_with('(') => out.write_str(&results),
            _ => write!(out, "({results})"),
        }
    }

    fn block(&self, region: &Region, depth: usize, out: &mut impl Write) -> fmt::Result {
        out.write_str("{\n")?;
        let indent = 2 * depth;
        if !region.arguments.is_empty() {
            writeln!(out, "{:indent$}^bb0({}):", "", self.typed(&region.arguments))?;
        }
        self.ops(&region.ops, depth + 1, out)?;
        write!(out, "{:indent$}}}", "")
    }

    /// Prints the attributes that the custom form did not spell.
    fn braces(&self, attributes: &Attributes, spelled: &[&str], out: &mut impl Write) -> fmt::Result {
        let left = attributes.without(spelled);
        if left.is_empty() {
            return Ok(());
        }
        write!(out, " {left}")
    }
}
