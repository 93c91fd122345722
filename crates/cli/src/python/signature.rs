//! Parameters of a Python function.

/// The parameters that a kernel receives its references by.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Signature {
    /// Parameters that can be passed by position, in order.
    pub positional: Vec<Parameter>,
    /// Whether `*refs` takes the rest.
    pub takes_rest: bool,
}

/// A parameter that can be passed by position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parameter {
    /// Its name.
    pub name: String,
    /// Whether it has a default value.
    pub has_default: bool,
}

impl Signature {
    /// Parses what stands between the parentheses, without comments and strings.
    pub(super) fn parse(text: &str) -> Self {
        let mut signature = Self::default();
        for parameter in split(text) {
            match parameter.strip_prefix('*') {
                // A bare `*`, `*refs` and `**options` all end the positional ones.
                Some(rest) => {
                    signature.takes_rest = !rest.trim().is_empty() && !rest.starts_with('*');
                    break;
                }
                None if parameter == "/" => {}
                None => signature.positional.extend(Parameter::parse(parameter)),
            }
        }
        signature
    }

    /// Names of the first `count` arguments, if every one is passed to the parameter in its position.
    ///
    /// `is_bound` says whether a parameter beyond them gets its value by name, as from `functools.partial`.
    /// With `*refs` only the parameters before it have names.
    pub(crate) fn names(&self, count: usize, is_bound: impl Fn(&str) -> bool) -> Option<Vec<&str>> {
        let (taken, rest) = self.positional.split_at(count.min(self.positional.len()));
        let all = taken.len() == count || self.takes_rest;
        let rest_is_bound = rest.iter().all(|parameter| parameter.has_default || is_bound(&parameter.name));
        (all && rest_is_bound).then(|| taken.iter().map(|parameter| &*parameter.name).collect())
    }
}

impl Parameter {
    fn parse(text: &str) -> Option<Self> {
        let name: &str = text.split([':', '=']).next()?.trim();
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        // The first `=` outside brackets; an annotation has none.
        let has_default = split_at(text, '=').count() > 1;
        is_name.then(|| Self { name: name.to_owned(), has_default })
    }
}

/// The items between commas outside brackets.
pub(super) fn split(text: &str) -> impl Iterator<Item = &str> {
    split_at(text, ',').map(str::trim).filter(|item| !item.is_empty())
}

fn split_at(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut depth = 0i64;
    text.split(move |character| {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        depth == 0 && character == separator
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, count: usize, bound: &[&str]) -> Option<Vec<String>> {
        let names = Signature::parse(text);
        let names = names.names(count, |name| bound.contains(&name))?;
        Some(names.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn every_reference_gets_the_name_in_its_position() {
        let three = Some(["x", "o", "s"].map(str::to_owned).to_vec());
        assert_eq!(names("x, o, s", 3, &[]), three);
        assert_eq!(names("x, /, o, s, *, nk", 3, &[]), three);
        assert_eq!(names("x: Ref[int, str] = (1, 2), o=None, s=f(a=1), nk=4", 3, &[]), three);
        assert_eq!(names("x, o, s, nk", 3, &["nk"]), three);
    }

    #[test]
    fn references_that_could_go_to_other_parameters_have_no_names() {
        assert_eq!(names("x, o", 3, &[]), None);
        assert_eq!(names("nk, x, o", 2, &[]), None);
        assert_eq!(names("x, *refs", 3, &[]), Some(vec!["x".to_owned()]));
        assert_eq!(names("*refs", 3, &[]), Some(vec![]));
        assert_eq!(names("**options", 1, &[]), None);
    }
}
