//! What there is to run in a guide.

/// A fenced block.
#[derive(Debug, PartialEq)]
pub enum Block {
    /// A file that its first line names.
    File {
        name: String,
        yaml: String,
    },
    /// An object, or a part of one, that is shown.
    Object(String),
    Commands(Vec<Typed>),
    /// What tests do not run, and why.
    Excused(String),
}

/// A command as a reader types it.
#[derive(Debug, Default, PartialEq)]
pub struct Typed {
    pub command: String,
    /// What is typed into the shell that it opens.
    pub inside: String,
    /// What the guide shows of its output.
    pub shown: String,
}

/// The blocks of a guide, without their comments: these are in its language.
pub fn blocks(markdown: &str) -> Vec<Block> {
    let (mut blocks, mut excuse) = (Vec::new(), None);
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            let told = line.strip_prefix("<!-- not run by tests: ");
            excuse = told.and_then(|told| told.strip_suffix(" -->"));
            continue;
        };
        let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.extend(match (excuse.take(), language) {
            (Some(excuse), _) => Some(Block::Excused(excuse.to_owned())),
            (None, "console") => Some(Block::Commands(transcript(&text))),
            (None, "shell") => Some(Block::Commands(script(&text))),
            (None, "yaml") => Some(yaml(&text)),
            // A drawing.
            (None, "") => None,
            (None, _) => panic!("nobody knows how to run {language}: {text:#?}"),
        });
    }
    blocks
}

fn yaml(text: &[&str]) -> Block {
    let name = text[0].strip_prefix("# ");
    let name = name.filter(|name| name.ends_with(".yaml"));
    let yaml = text.iter().map(|line| format!("{}\n", uncommented(line)));
    let yaml = yaml.collect();
    match name.map(str::to_owned) {
        Some(name) => Block::File { name, yaml },
        None => Block::Object(yaml),
    }
}

fn script(text: &[&str]) -> Vec<Typed> {
    let typed = |line: &&str| Typed {
        command: uncommented(line).to_owned(),
        ..Typed::default()
    };
    text.iter().map(typed).collect()
}

/// Commands after a `$`, and under each what it printed.
fn transcript(text: &[&str]) -> Vec<Typed> {
    let mut typed: Vec<Typed> = Vec::new();
    for line in text {
        let last = typed.last_mut();
        match (line.strip_prefix("$ "), last) {
            (Some(line), Some(last)) if last.command.contains(" exec -it ") => {
                last.inside += &format!("{line}\n");
            }
            (Some(line), _) => typed.extend(script(&[line])),
            (None, Some(last)) if last.command.ends_with('\\') => {
                last.command += &format!("\n{line}");
            }
            (None, Some(last)) => last.shown += &format!("{line}\n"),
            (None, None) => panic!("what was printed has no command: {text:#?}"),
        }
    }
    typed
}

fn uncommented(line: &str) -> &str {
    let text = match line.starts_with('#') {
        true => "",
        false => line.split(" #").next().unwrap_or_default(),
    };
    text.trim_end()
}
