//! How long ago something was, as `kubectl` says it.

/// How long ago something was, in the short form that kubectl has.
pub(super) fn age(since: &str) -> String {
    if since.is_empty() {
        return "<unknown>".to_owned();
    }
    match since.parse::<jiff::Timestamp>() {
        Ok(since) => human(jiff::Timestamp::now().duration_since(since).as_secs()),
        Err(_) => "<invalid>".to_owned(),
    }
}

fn human(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match seconds {
        ..0 => "<invalid>".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        for (seconds, wanted) in [
            (-1, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (601, "10m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (30_000, "8h"),
            (180_000, "2d2h"),
            (700_000, "8d"),
        ] {
            assert_eq!(human(seconds), wanted, "{seconds}");
        }
    }
}
