//! An export as a text: a Bash array, JSON, TOML or YAML.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json};

use super::Form;
use super::export::{Exported, Line, Origin};
use super::rules::{Table, scalar};
use super::shell::quoted;

impl Exported {
    /// The text that the target reads, each line with the settings that it says, where its form has
    /// comments.
    pub fn text(&self) -> String {
        match self.target.form {
            Form::Arguments => self.script(),
            Form::Json => {
                let document = serde_json::to_string_pretty(&self.document()).unwrap_or_default();
                document + "\n"
            }
            Form::Toml => self.sections(&TOML_SECTIONS),
            Form::Yaml => self.sections(&YAML_SECTIONS),
        }
    }

    /// The settings behind the lines of a text without comments.
    pub fn origins(&self) -> Option<String> {
        (self.target.form == Form::Json).then(|| {
            let [per_node, nodes] = self.gpus;
            let head = format!(
                "Keys of {}, for example:\n  deepspeed --num_gpus {per_node} --num_nodes {nodes} train.py \
                 --deepspeed --deepspeed_config FILE\n",
                self.target.name
            );
            let keys: Vec<String> =
                self.arguments.iter().map(|line| format!("  {}", line.words[0])).collect();
            let beside = self.beside.iter().map(|beside| format!("  {}\n", beside.comment()));
            let title = "In the training program or its launcher:\n";
            head + &aligned(&keys, &self.arguments) + title + &beside.collect::<String>()
        })
    }

    fn script(&self) -> String {
        let [per_node, nodes] = self.gpus;
        let line = |line: &Line| line.words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = self.arguments.iter().map(|it| format!("  {}", line(it))).collect();
        format!(
            "# Arguments of {}, for example:\n\
             # torchrun --nproc-per-node {per_node} --nnodes {nodes} pretrain_gpt.py \"${{ARGS[@]}}\"\nARGS=(\n{})\n{}",
            self.target.name,
            aligned(&lines, &self.arguments),
            self.beside_lines("# Not an argument")
        )
    }

    fn sections(&self, style: &Sections) -> String {
        let [per_node, nodes] = self.gpus;
        let mut text = format!(
            "# {} {}, for example:\n# torchrun --nproc-per-node {per_node} --nnodes {nodes} {} FILE\n",
            self.target.name,
            self.target.table().releases.newest().unwrap_or_default(),
            style.program,
        );
        let key = |line: &Line| {
            let (section, key) = line.words[0].rsplit_once('.').unwrap_or(("", &line.words[0]));
            (section.to_owned(), key.to_owned())
        };
        let mut sections: Vec<String> = Vec::new();
        for (section, _) in self.arguments.iter().map(key) {
            if !sections.contains(&section) {
                sections.push(section);
            }
        }
        for section in sections {
            let _ = writeln!(text, "\n{}{section}{}", style.title[0], style.title[1]);
            let of_section: Vec<Line> =
                self.arguments.iter().filter(|line| key(line).0 == section).cloned().collect();
            // JSON's scalars and lists of them are those of TOML and YAML.
            let shown = |line: &Line| {
                format!("{}{}{}{}", style.indent, key(line).1, style.is, value(line, self.target.table()))
            };
            let lines: Vec<String> = of_section.iter().map(shown).collect();
            text += &aligned(&lines, &of_section);
        }
        text + "\n" + &self.beside_lines("# Not a key")
    }

    fn document(&self) -> Json {
        let mut root = Json::Object(Map::new());
        for line in &self.arguments {
            let place = line.words[0].split('.').fold(&mut root, |place, key| {
                if place.is_null() {
                    *place = Json::Object(Map::new());
                }
                &mut place[key]
            });
            *place = value(line, self.target.table());
        }
        root
    }

    fn beside_lines(&self, title: &str) -> String {
        self.beside.iter().map(|beside| format!("{title}: {}\n", beside.comment())).collect()
    }
}

/// How a text with sections is written.
struct Sections {
    /// The program that reads it, up to the file.
    program: &'static str,
    /// Around the name of a section.
    title: [&'static str; 2],
    /// Before a key.
    indent: &'static str,
    /// Between a key and its value.
    is: &'static str,
}

const TOML_SECTIONS: Sections =
    Sections { program: "-m torchtitan.train --job.config_file", title: ["[", "]"], indent: "", is: " = " };
const YAML_SECTIONS: Sections =
    Sections { program: "pretrain.py --config-file", title: ["", ":"], indent: "  ", is: ": " };

/// Lines, each with the settings that it says behind it.
fn aligned(lines: &[String], arguments: &[Line]) -> String {
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let comment = |line: &Line| line.settings.iter().map(Origin::comment).collect::<Vec<_>>().join("; ");
    lines
        .iter()
        .zip(arguments)
        .map(|(text, line)| match &line.settings[..] {
            [] => format!("{text}\n"),
            _ => format!("{text:width$}  # {}\n", comment(line)),
        })
        .collect()
}

/// The value of a key with its type.
fn value(line: &Line, table: &Table) -> Json {
    let (name, values) = line.words.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
    let typed = |word: &String| match word.as_str() {
        _ if table.texts.contains(name) => Json::from(word.as_str()),
        "true" => Json::Bool(true),
        "false" => Json::Bool(false),
        word => scalar(word),
    };
    match values {
        [only] if !table.lists.contains(name) => typed(only),
        values => values.iter().map(typed).collect(),
    }
}

impl Origin {
    fn comment(&self) -> String {
        let origin = self.origin.replace(['\n', '\r'], " ");
        format!("{}, {origin}", self.path)
    }
}
