//! Whether kubectl prints what a document shows.

/// Columns with what belongs to a machine and an hour.
const ITS_OWN: [&str; 3] = ["AGE", "AVAIL SPACE", "CREATED AT"];

/// Whether the output of a command is as shown: a table cell by cell, all else word by
/// word, where `…` stands for anything.
pub fn is_shown(printed: &str, shown: &str) -> bool {
    if shown.starts_with("NAME ") {
        return table(printed) == table(shown);
    }
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (printed, shown) = (words(printed), words(shown));
    let mut rest = printed.as_str();
    for (number, part) in shown.split('…').map(str::trim).enumerate() {
        let Some(at) = rest.find(part).filter(|at| number > 0 || *at == 0) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    shown.is_empty() || shown.ends_with('…') || rest.is_empty()
}

/// Whether a watch has printed the states that are shown, in their order. Those at the
/// beginning may have been over before it began; figures and times are others.
pub fn is_watched(printed: &str, shown: &str) -> bool {
    let (heads, states) = watched(printed);
    let (shown_heads, mut shown) = watched(shown);
    if let Some(first) = shown.iter().position(|state| states.contains(state)) {
        shown.drain(..first);
    }
    let mut left = states.iter();
    heads == shown_heads && shown.iter().all(|state| left.any(|next| next == state))
}

/// The lines of a table cut at its heads, but for the columns that nobody can foresee.
fn table(text: &str) -> Vec<Vec<&str>> {
    let heads = text.lines().next().unwrap_or_default();
    let is_start = |at: &usize| {
        let (before, after) = heads.split_at(*at);
        (before.is_empty() || before.ends_with("  ")) && !after.starts_with(' ')
    };
    let starts: Vec<usize> = (0..heads.len()).filter(is_start).collect();
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let columns = starts.iter().copied().zip(ends);
    let columns = columns.filter(|(start, end)| !ITS_OWN.contains(&cell(heads, *start, *end)));
    let columns: Vec<_> = columns.collect();
    let cells = |line| {
        columns
            .iter()
            .map(move |(start, end)| cell(line, *start, *end))
    };
    text.lines().map(|line| cells(line).collect()).collect()
}

fn cell(line: &str, start: usize, end: usize) -> &str {
    let end = end.min(line.len());
    line.get(start..end).unwrap_or_default().trim()
}

/// The heads of a table, and of each row the cells that hold no figure.
fn watched(text: &str) -> (Vec<&str>, Vec<Vec<&str>>) {
    let cells = |line| {
        str::split(line, "  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
    };
    let mut lines = text.lines();
    let heads = cells(lines.next().unwrap_or_default()).collect();
    let is_state = |cell: &&str| !cell.contains(|letter: char| letter.is_ascii_digit());
    (
        heads,
        lines
            .map(|line| cells(line).filter(is_state).collect())
            .collect(),
    )
}
