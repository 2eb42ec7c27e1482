//! What the schema says about a setting: its documentation and its choices. The schema is made from the types of the
//! settings, so nothing is described twice.

use serde_json::Value as Json;

/// The schema of scenario files.
pub(super) struct Dictionary(Json);

/// A place in it: a setting, a choice, or one form of a choice.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    root: &'a Json,
    here: &'a Json,
}

impl Dictionary {
    pub(super) fn new() -> Self {
        Self(serde_json::from_str(&scenarios::json_schema()).expect("the schema is JSON"))
    }

    /// The entry of a whole file.
    pub(super) fn file(&self) -> Entry<'_> {
        Entry { root: &self.0, here: &self.0 }
    }
}

impl<'a> Entry<'a> {
    /// The entry under the keys and tags of `path`.
    pub(super) fn at(self, path: &[&str]) -> Option<Self> {
        path.iter().try_fold(self, |entry, key| entry.field(key))
    }

    /// The keys of a map or the words of a choice, each with its documentation.
    pub(super) fn names(self) -> Vec<(&'a str, String)> {
        let mut names = Vec::new();
        for form in self.forms() {
            let words = form.here.get("enum").and_then(Json::as_array).into_iter().flatten();
            let words = words.chain(form.here.get("const")).filter_map(Json::as_str);
            names.extend(words.map(|word| (word, form.documentation())));
            for (key, value) in form.here.get("properties").and_then(Json::as_object).into_iter().flatten() {
                // A choice is documented by its form, a setting by itself.
                let own = Self { here: value, ..form };
                let told = if self.is_choice() { form } else { own };
                names.push((key.as_str(), told.documentation()));
            }
        }
        names
    }

    /// Whether one of several words or tags stands here.
    pub(super) fn is_choice(self) -> bool {
        self.resolved().here.get("oneOf").is_some()
    }

    /// What it means.
    pub(super) fn documentation(self) -> String {
        let said = |entry: Self| entry.here.get("description").and_then(Json::as_str);
        said(self).or_else(|| said(self.resolved())).unwrap_or_default().replace('\n', " ")
    }

    fn field(self, key: &str) -> Option<Self> {
        let of = |form: Self| {
            let here = match form.here.get("properties") {
                Some(properties) => properties.get(key),
                None => form.here.get("items").filter(|_| key.bytes().all(|byte| byte.is_ascii_digit())),
            };
            here.map(|here| Self { here, ..form })
        };
        self.forms().into_iter().find_map(of)
    }

    /// The forms that a value may take; itself where there is only one.
    fn forms(self) -> Vec<Self> {
        let entry = self.resolved();
        match entry.here.get("oneOf").or_else(|| entry.here.get("anyOf")).and_then(Json::as_array) {
            Some(forms) => forms.iter().map(|here| Self { here, ..entry }.resolved()).collect(),
            None => vec![entry],
        }
    }

    /// Where references lead. One with a description beside it is wrapped in `allOf`.
    fn resolved(self) -> Self {
        let wrapped = self.here.get("allOf").and_then(|all| all.get(0));
        let referred = || self.root.pointer(self.here.get("$ref")?.as_str()?.strip_prefix('#')?);
        wrapped.or_else(referred).map_or(self, |here| Self { here, ..self }.resolved())
    }
}
