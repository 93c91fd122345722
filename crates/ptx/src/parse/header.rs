//! Directives: module header, function headers, declarations.

use memchr::memchr;

use super::Parser;
use crate::ir::{Directive, Function, ParameterDecl, RegisterDecl, Variable};

/// Directives that end with their line instead of a `;`.
const LINE_DIRECTIVES: [&str; 7] =
    [".version", ".target", ".address_size", ".file", ".loc", ".section", ".pragma"];

impl<'a> Parser<'a> {
    /// `.version 8.3`, `.reg .b32 %r<9>;`, `.visible .entry name(..) .maxntid 384, 1, 1`
    pub(super) fn directive(&mut self) {
        let start = self.at;
        let line = self.rest().lines().next().unwrap_or_default();
        if let Some(name) = LINE_DIRECTIVES.iter().find(|name| line.starts_with(**name)) {
            self.line_directive(name, line);
            self.at += line.len();
            return;
        }
        let end = self.rest().find([';', '{', '}']).map_or(self.bytes.len(), |length| start + length);
        let text = self.slice(start, end);
        if text.contains('=') {
            // `.global .b8 table[4] = {1, 2, 3, 4};`: this brace opens no block.
            let length = memchr(b';', self.bytes.get(end..).unwrap_or_default());
            let end = length.map_or(self.bytes.len(), |length| end + length);
            self.variable(self.slice(start, end));
            self.at = end + 1;
            return;
        }
        let opens = self.bytes.get(end) == Some(&b'{');
        let keyword = [".entry", ".func"].into_iter().find_map(|word| Some((text.find(word)?, word)));
        match keyword.filter(|_| opens) {
            Some((at, word)) => self.function(text, at, word),
            None if text.starts_with(".reg") => self.registers(text),
            None => self.variable(text),
        }
        let closes = matches!(self.bytes.get(end), Some(b'{' | b'}'));
        self.at = if closes { end } else { end + 1 };
    }

    fn line_directive(&mut self, name: &str, line: &'a str) {
        let value = line.get(name.len()..).unwrap_or_default().trim().trim_end_matches(';');
        match name {
            ".version" => self.module.version = value.into(),
            ".address_size" => self.module.address_size = value.into(),
            // The first of a list: `sm_90a, texmode_independent`.
            ".target" => {
                self.module.target = value.split([',', ' ']).next().unwrap_or_default().into();
            }
            _ => {}
        }
    }

    fn variable(&mut self, text: &'a str) {
        let variable = Variable { text: text.trim().into(), position: self.position(self.at) };
        match self.module.functions.last_mut().filter(|_| self.depth > 0) {
            Some(function) => function.variables.push(variable),
            None => self.module.variables.push(variable),
        }
    }

    /// `.reg .b32 %r<9>`, `.reg .pred p, q`
    fn registers(&mut self, text: &'a str) {
        let position = self.position(self.at);
        let Some(function) = self.module.functions.last_mut() else { return };
        let declared = text.get(".reg".len()..).unwrap_or_default();
        // Types start with a point, names do not.
        let mut names = declared.trim_start();
        while names.starts_with('.') {
            names = names.split_once(char::is_whitespace).unwrap_or_default().1.trim_start();
        }
        let kind = declared.get(..declared.len() - names.len()).unwrap_or_default().trim();
        for name in names.split(',').map(str::trim) {
            let numbered = name.strip_suffix('>').and_then(|name| name.split_once('<'));
            let (name, count) = numbered.map_or((name, None), |(name, count)| (name, Some(count.into())));
            function.registers.push(RegisterDecl { kind: kind.into(), name: name.into(), count, position });
        }
    }

    /// `.visible .entry name(.param .u32 m) .maxntid 384, 1, 1`; the keyword is at `keyword`.
    fn function(&mut self, text: &'a str, keyword: usize, word: &str) {
        let linkage = text.get(..keyword).unwrap_or_default().trim();
        let mut rest = text.get(keyword + word.len()..).unwrap_or_default().trim_start();
        // `.func (.reg .b32 result) name(..)`: the result stands before the name.
        if rest.starts_with('(') {
            rest = rest.split_once(')').map_or(rest, |(_, rest)| rest.trim_start());
        }
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
        let (name, header) = rest.split_at(rest.bytes().take_while(is_name).count());
        let position = self.position(self.offset_of(name));
        let list = header.trim_start().strip_prefix('(').and_then(|list| list.split_once(')'));
        let (parameters, directives) = list.unwrap_or(("", header));
        let function = Function {
            linkage: linkage.into(),
            is_entry: word == ".entry",
            name: name.into(),
            position,
            parameters: self.parameters(parameters),
            directives: self.directives(directives),
            ..Function::default()
        };
        self.module.functions.push(function);
    }

    /// Declarations between commas; a stray comma gives one without a name.
    fn parameters(&mut self, text: &'a str) -> Vec<ParameterDecl<'a>> {
        if text.trim().is_empty() {
            return Vec::new();
        }
        let declarations = text.split(',').map(str::trim);
        let parameter = |declaration: &'a str| {
            let (kind, name) = declaration.rsplit_once(char::is_whitespace).unwrap_or(("", declaration));
            let array = name.strip_suffix(']').and_then(|name| name.split_once('['));
            let (name, elements) = array.map_or((name, None), |(name, count)| (name, Some(count.into())));
            let position = self.position(self.offset_of(declaration));
            ParameterDecl { kind: kind.trim_end().into(), name: name.into(), elements, position }
        };
        declarations.map(parameter).collect()
    }

    /// `.maxntid 384, 1, 1 .minnctapersm 1`
    fn directives(&mut self, text: &'a str) -> Vec<Directive<'a>> {
        let pieces = text.split('.').skip(1);
        let directive = |piece: &'a str| {
            let (name, arguments) = piece.split_once(char::is_whitespace).unwrap_or((piece, ""));
            let start = self.offset_of(name).saturating_sub(1);
            let arguments = arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty());
            Directive {
                name: self.slice(start, start + 1 + name.len()).into(),
                arguments: arguments.map(Into::into).collect(),
                position: self.position(start),
            }
        };
        pieces.map(directive).collect()
    }

    /// Byte offset of a part of the text.
    pub(super) fn offset_of(&self, part: &str) -> usize {
        (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }
}
