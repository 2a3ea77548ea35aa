//! That no key is seen: in no command line, log, file, status or event.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::http::Request;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;

use crate::servers::TELLTALE;
use crate::support::Local;

/// Everything that the API has but Secrets, where keys live by nature.
const RESOURCES: [&str; 11] = [
    "/api/v1/configmaps",
    "/api/v1/events",
    "/api/v1/nodes",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/api/v1/pods",
    "/api/v1/services",
    "/apis/apps/v1/statefulsets",
    "/apis/batch.paddlepaddle.org/v1/paddlejobs",
    "/apis/batch.paddlepaddle.org/v1alpha1/samplejobs",
    "/apis/batch.paddlepaddle.org/v1alpha1/samplesets",
];

/// Looks at the command lines of the machine until it is asked.
pub struct Keys {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// Whether there was a copy at all.
    sync: bool,
    /// The lines with a key.
    keys: Vec<String>,
}

impl Keys {
    pub fn watch() -> Keys {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            while !told.load(Ordering::Relaxed) {
                look(&mut seen);
                std::thread::sleep(Duration::from_millis(20));
            }
            seen
        });
        Keys {
            stop,
            thread: Some(thread),
        }
    }

    pub async fn assert_unseen(mut self, local: &Local, client: &Client) {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.thread.take().unwrap().join().unwrap();
        assert!(seen.sync, "no copy was seen");
        assert_eq!(seen.keys, Vec::<String>::new());
        let words = telltales(client).await;
        for (place, text) in told(local, client).await {
            for word in &words {
                assert!(!text.contains(word), "{word} is in {place}: {text}");
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn look(seen: &mut Seen) {
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        seen.sync |= line.contains("juicefs") && line.contains(" sync ");
        if line.contains(TELLTALE.as_str()) {
            seen.keys.push(line);
        }
    }
}

/// The keys, and as Secrets have them.
async fn telltales(client: &Client) -> Vec<String> {
    let secrets: Api<Secret> = Api::all(client.clone());
    let mut words = vec![TELLTALE.clone()];
    for secret in secrets.list(&Default::default()).await.unwrap() {
        let values = serde_json::to_value(secret.data.unwrap_or_default()).unwrap();
        for key in ["access-key", "secret-key", "metaurl"] {
            words.extend(values[key].as_str().map(str::to_owned));
        }
    }
    // Of a volume that has none, the word would be in everything.
    words.retain(|word| word.len() > 8);
    words
}

/// All that anybody could read, and where it is.
async fn told(local: &Local, client: &Client) -> Vec<(String, String)> {
    let mut told = Vec::new();
    for path in RESOURCES {
        let request = Request::get(path).body(Vec::new()).unwrap();
        told.push((path.to_owned(), client.request_text(request).await.unwrap()));
    }
    let files = local.files().into_iter();
    told.extend(files.map(|(path, text)| (path.display().to_string(), text)));
    told
}
