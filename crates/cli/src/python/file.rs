//! A Python file, split into statements and functions.
//!
//! Only as much of the grammar as a report needs: where statements begin and end, which functions contain a
//! line, and their parameters. Text that is not Python gives useless statements, never an error.

use super::signature::Signature;

/// A parsed file.
#[derive(Debug, Default)]
pub(crate) struct PythonFile {
    lines: Vec<String>,
    statements: Vec<Statement>,
    functions: Vec<PythonFunction>,
}

/// A statement: one line, or several joined by brackets, strings or backslashes.
#[derive(Debug, Clone, PartialEq)]
struct Statement {
    /// First line, from 1.
    first: u32,
    /// Columns of indentation.
    indent: usize,
    /// The text without comments, with blank strings.
    code: String,
}

/// A function definition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PythonFunction {
    /// The name after `def`.
    pub name: String,
    /// Line of `def`.
    pub first: u32,
    /// Last line of the body.
    pub last: u32,
    /// The parameters.
    pub signature: Signature,
}

impl PythonFile {
    /// Splits the text of a file.
    pub(crate) fn parse(text: &str) -> Self {
        let statements = Scanner::statements(text);
        let functions = functions(&statements);
        Self { lines: text.lines().map(str::to_owned).collect(), statements, functions }
    }

    /// A line, from 1.
    pub(crate) fn line(&self, line: u32) -> Option<&str> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        self.lines.get(index).map(String::as_str)
    }

    /// The statement on a line that begins at or before `column`, where `;` separates several.
    pub(crate) fn code_at(&self, line: u32, column: u32) -> Option<&str> {
        let text = self.line(line)?;
        let whole = self.statement(line).filter(|statement| statement.first == line && column > 0);
        // Strings may contain semicolons; in the statement they are blank.
        let code = whole.map_or("", |statement| &statement.code);
        let indent = text.chars().take_while(|c| c.is_whitespace()).count();
        let ends: Vec<usize> = code.match_indices(';').map(|(at, _)| indent + at).collect();
        let column = column as usize;
        let start = ends.iter().rev().find(|&&end| end < column).map_or(0, |end| end + 1);
        let end = ends.iter().find(|&&end| end >= column).copied();
        let taken = text.char_indices().nth(start).map_or(text, |(at, _)| &text[at..]);
        let taken = match end.and_then(|end| taken.char_indices().nth(end - start)) {
            Some((at, _)) => &taken[..at],
            None => taken,
        };
        Some(taken.trim()).filter(|code| !code.is_empty())
    }

    /// The statement that contains a line, without comments and strings.
    pub(crate) fn statement_code(&self, line: u32) -> Option<&str> {
        self.statement(line).map(|statement| &*statement.code)
    }

    fn statement(&self, line: u32) -> Option<&Statement> {
        let after = self.statements.partition_point(|statement| statement.first <= line);
        self.statements.get(after.checked_sub(1)?)
    }

    /// The functions that contain a line, outermost first.
    pub(crate) fn enclosing(&self, line: u32) -> Vec<&PythonFunction> {
        self.functions.iter().filter(|function| (function.first..=function.last).contains(&line)).collect()
    }

    /// The last function of this name that is defined before a line.
    pub(crate) fn function_before(&self, name: &str, line: u32) -> Option<&PythonFunction> {
        self.functions.iter().rev().find(|function| function.name == name && function.first < line)
    }

    /// Code of every statement.
    pub(crate) fn codes(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().map(|statement| &*statement.code)
    }
}

/// Functions in the order of their definition, so that outer ones come before nested ones.
fn functions(statements: &[Statement]) -> Vec<PythonFunction> {
    let mut functions = Vec::new();
    // Functions whose body has not ended: index and indentation.
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut previous = 0;
    for statement in statements {
        while open.last().is_some_and(|(_, indent)| statement.indent <= *indent) {
            let ended = open.pop().and_then(|(index, _)| functions.get_mut(index));
            ended.into_iter().for_each(|function: &mut PythonFunction| function.last = previous);
        }
        if let Some((name, parameters)) = definition(&statement.code) {
            open.push((functions.len(), statement.indent));
            let signature = Signature::parse(parameters);
            functions.push(PythonFunction {
                name: name.to_owned(),
                first: statement.first,
                last: 0,
                signature,
            });
        }
        previous = statement.first + statement.code.matches('\n').count() as u32;
    }
    for (index, _) in open {
        functions.get_mut(index).into_iter().for_each(|function| function.last = previous);
    }
    functions
}

/// Name and parameters of `def name(parameters):`.
fn definition(code: &str) -> Option<(&str, &str)> {
    let code = code.strip_prefix("async ").unwrap_or(code);
    let (name, rest) = code.strip_prefix("def ")?.split_once('(')?;
    let mut depth = 1;
    let end = rest.char_indices().find(|(_, character)| {
        depth += match character {
            '(' | '[' | '{' => 1,
            ')' | ']' | '}' => -1,
            _ => 0,
        };
        depth == 0
    });
    // A generic function has its type parameters in brackets.
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    Some((name.trim(), &rest[..end?.0]))
}

/// Splits text into statements.
#[derive(Default)]
struct Scanner {
    statements: Vec<Statement>,
    current: Option<Statement>,
    depth: usize,
    /// The quotes that end the string, inside one.
    string: Option<&'static str>,
}

/// Quotes that begin a string, longest first.
const QUOTES: [&str; 4] = ["\"\"\"", "'''", "\"", "'"];

impl Scanner {
    fn statements(text: &str) -> Vec<Statement> {
        let mut scanner = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            scanner.line(number, line);
        }
        scanner.statements.extend(scanner.current);
        scanner.statements
    }

    fn line(&mut self, number: u32, line: &str) {
        let content = line.trim_start();
        if self.current.is_none() {
            if content.is_empty() || content.starts_with('#') {
                return;
            }
            let indent = line.len() - content.len();
            self.current = Some(Statement { first: number, indent, code: String::new() });
        }
        let continues = self.code(content);
        // A string in single quotes ends with its line.
        self.string = self.string.filter(|quotes| quotes.len() == 3 || continues);
        if self.string.is_none() && self.depth == 0 && !continues {
            self.statements.extend(self.current.take());
        } else if let Some(current) = &mut self.current {
            current.code.push('\n');
        }
    }

    /// Adds a line to the current statement; returns whether a backslash continues it.
    fn code(&mut self, line: &str) -> bool {
        let Some(current) = &mut self.current else { return false };
        let mut rest = line;
        while let Some(character) = rest.chars().next() {
            let mut taken = character.len_utf8();
            match self.string {
                Some(quotes) if rest.starts_with(quotes) => {
                    (taken, self.string) = (quotes.len(), None);
                    current.code.push_str(quotes);
                }
                Some(_) => {
                    let escaped = if character == '\\' { rest.chars().nth(1) } else { None };
                    taken += escaped.map_or(0, char::len_utf8);
                    current.code.push_str(if escaped.is_some() { "  " } else { " " });
                    if character == '\\' && escaped.is_none() {
                        return true;
                    }
                }
                None if character == '#' => return false,
                None if rest == "\\" => return true,
                None => {
                    if let Some(quotes) = QUOTES.into_iter().find(|quotes| rest.starts_with(quotes)) {
                        (taken, self.string) = (quotes.len(), Some(quotes));
                    }
                    match character {
                        '(' | '[' | '{' => self.depth += 1,
                        ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                        _ => {}
                    }
                    current.code.push_str(&rest[..taken]);
                }
            }
            rest = &rest[taken..];
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
import jax
def kernel(x_hbm, w_hbm,  # operands
           o_hbm, *, nk=(1, 2)):
    \"\"\"def no(function):
    # not a comment \"\"\"
    a = 'x; y'; start(0); \\
        c.wait()
    def body(k, c):
        return c

    fori_loop(0, nk, body)
async def other(): pass
x = 1
";

    #[test]
    fn functions_contain_their_lines() {
        let file = PythonFile::parse(TEXT);
        let names = |line| -> Vec<String> {
            file.enclosing(line).iter().map(|function| function.name.clone()).collect()
        };
        assert_eq!(names(1), [""; 0]);
        assert_eq!(names(3), ["kernel"]);
        assert_eq!(names(9), ["kernel", "body"]);
        assert_eq!(names(11), ["kernel"]);
        assert_eq!(names(12), ["other"]);
        assert_eq!(names(13), [""; 0]);
    }

    #[test]
    fn semicolons_separate_the_statements_of_a_line_but_not_of_a_string() {
        let file = PythonFile::parse(TEXT);
        assert_eq!(file.code_at(6, 5), Some("a = 'x; y'"));
        assert_eq!(file.code_at(6, 17), Some("start(0)"));
        assert_eq!(file.code_at(6, 18), Some("start(0)"));
        assert_eq!(file.code_at(7, 9), Some("c.wait()"));
        assert_eq!(file.code_at(6, 0), Some("a = 'x; y'; start(0); \\"));
        assert_eq!(file.code_at(99, 1), None);
        assert_eq!(file.code_at(10, 1), None);
        assert!(file.statement_code(7).is_some_and(|code| code.contains("c.wait()")));
    }

    #[test]
    fn any_text_is_split_without_panicking() {
        for text in
            ["", "def (", "def f(", "'\\", "\"\"\"é\\", "def é(ü: \"x", ")))(", "@\n\\", "def f[T](a): x"]
        {
            let file = PythonFile::parse(text);
            (0..4).for_each(|line| {
                drop((file.code_at(line, 3), file.statement_code(line), file.enclosing(line)))
            });
        }
    }
}
