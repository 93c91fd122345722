//! Modules and functions in MLIR's generic form, and what else stands beside functions.

use super::{
    Parser,
    cursor::Result,
    ops::{Scope, Unnamed},
};
use crate::{
    attribute::{Attr, Attributes},
    ir::{Function, Module, Visibility},
    types::Type,
};

impl Parser<'_> {
    /// Parses `"builtin.module"() <{...}> ({ ... }) {...} : () -> ()` after its name.
    pub(super) fn generic_module(&mut self, module: &mut Module) -> Result<()> {
        let mut op = Unnamed::new("builtin.module");
        self.generic_operands(&mut op)?;
        self.cursor.require("(")?;
        self.cursor.require("{")?;
        // A block without arguments may have a label.
        if self.cursor.eat("^") {
            self.cursor.suffix()?;
            if self.cursor.eat("(") {
                self.cursor.require(")")?;
            }
            self.cursor.require(":")?;
        }
        while !self.cursor.eat("}") {
            self.symbol_op(module)?;
        }
        self.cursor.require(")")?;
        let op = self.generic_end(op)?;
        for (name, value) in op.attributes.iter() {
            match (name, value) {
                ("sym_name", Attr::String(name)) => module.name = Some(name.clone()),
                (name, value) => {
                    let attributes = std::mem::take(&mut module.attributes);
                    module.attributes = attributes.with(name, value.clone());
                }
            }
        }
        Ok(())
    }

    /// Parses one operation of a module: a function, or a mesh, which becomes an attribute of the module.
    pub(super) fn symbol_op(&mut self, module: &mut Module) -> Result<()> {
        if self.cursor.eat_word("func.func") {
            module.functions.push(self.function_after_keyword()?);
            return Ok(());
        }
        let mut start = self.cursor.clone();
        let mesh = match self.cursor.peek() {
            Some('"') => {
                let name = self.cursor.string()?;
                match name.strip_suffix("func.func") {
                    Some("" | "stable_mosaic.") => {
                        module.functions.push(self.generic_function(&name)?);
                        return Ok(());
                    }
                    _ if name == "sdy.mesh" => self.generic_mesh()?,
                    _ => return Err(start.unsupported(format!("'{name}' is not supported beside functions"))),
                }
            }
            _ if self.cursor.eat_word("sdy.mesh") => {
                let name = self.symbol_name()?;
                self.cursor.require("=")?;
                let mesh = Attr::Other(format!("#sdy.mesh{}", self.cursor.balanced()?));
                self.optional_dict()?;
                self.location()?;
                (name, mesh)
            }
            _ => return Err(start.expected("'func.func'")),
        };
        let meshes = match module.attributes.get(MESHES) {
            Some(Attr::Dict(meshes)) => meshes.clone(),
            _ => Attributes::new(),
        };
        if meshes.get(&mesh.0).is_some() {
            return Err(start.error(format!("the mesh @{} is defined twice", mesh.0)));
        }
        let others = module.attributes.without(&[MESHES]);
        module.attributes = others.with(MESHES, Attr::Dict(meshes.with(mesh.0, mesh.1)));
        Ok(())
    }

    /// Parses `"sdy.mesh"() <{mesh = ..., sym_name = "..."}> : () -> ()` after its name.
    fn generic_mesh(&mut self) -> Result<(String, Attr)> {
        let mut start = self.cursor.clone();
        let mut op = Unnamed::new("sdy.mesh");
        self.generic_operands(&mut op)?;
        let op = self.generic_end(op)?;
        match (op.attributes.get("sym_name"), op.attributes.get("mesh")) {
            (Some(Attr::String(name)), Some(mesh)) => Ok((name.clone(), mesh.clone())),
            _ => Err(start.expected("a mesh with a name")),
        }
    }

    /// Parses `"func.func"() <{...}> ({ ... }) {...} : () -> ()` after its name.
    fn generic_function(&mut self, name: &str) -> Result<Function> {
        self.function = Scope::default();
        let mut start = self.cursor.clone();
        let mut op = Unnamed::new(name);
        self.generic_operands(&mut op)?;
        let mut bodies = self.list("(", ")", |p| p.region(|_| Ok(Vec::new())))?;
        let op = self.generic_end(op)?;
        let (Some(body), true) = (bodies.pop(), bodies.is_empty()) else {
            return Err(start.error("a function has one region"));
        };
        let Some(Attr::String(name)) = op.attributes.get("sym_name") else {
            return Err(start.error("a function needs the attribute 'sym_name'"));
        };
        let visibility = match op.attributes.get("sym_visibility") {
            Some(Attr::String(word)) if word == "private" => Visibility::Private,
            _ => Visibility::Public,
        };
        // The terminator has the types of the signature.
        let returned = body.ops.last().map(|op| op.operands.as_slice()).unwrap_or_default();
        let results: Vec<Type> = returned.iter().map(|&value| self.type_of(value).clone()).collect();
        let values = self.take_values();
        let attributes = op.attributes.without(&["sym_name", "sym_visibility", "function_type"]);
        Ok(Function { name: name.clone(), visibility, results, attributes, body, values })
    }

    /// Parses `() <{properties}>`.
    fn generic_operands(&mut self, op: &mut Unnamed) -> Result<()> {
        op.operands = self.list("(", ")", Self::operand)?;
        if self.cursor.eat("<") {
            op.attributes = self.dict("{", "}")?;
            self.cursor.require(">")?;
        }
        Ok(())
    }

    /// Parses `{attributes} : () -> () loc(...)`.
    fn generic_end(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let more = self.optional_dict()?;
        op.attributes = self.joined(op.attributes, more)?;
        self.cursor.require(":")?;
        self.bracketed_operand_types(&op)?;
        self.cursor.require("->")?;
        op.results = self.result_types()?;
        self.location()?;
        Ok(op)
    }
}

/// Attribute of the module that holds its device meshes by name.
const MESHES: &str = "sdy.meshes";
