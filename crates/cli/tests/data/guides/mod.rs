//! The guides: all that they say one should type, typed on one machine. Only addresses
//! differ, and the source, which is smaller and asks for keys.

mod markdown;

use std::fs;

use serde_json::{Value, json};

use crate::bed::{fill, shell, until};
use crate::guide::imagenet;
use crate::guides::markdown::{Block, Typed, blocks};
use crate::printed::is_shown;
use crate::servers::{ACCESS_KEY, Ending, S3, SECRET_KEY, free_address};
use crate::shell::{Shell, Watch};
use crate::support::{Local, repository};

const OF_DATA: [&str; 3] = [
    "docs/en/ext-get-start.md",
    "docs/en/ext-overview.md",
    "docs/en/ext-benchmark.md",
];
/// Much of what they tell needs a cluster.
const OF_MODES: [&str; 4] = [
    "docs/en/modes.md",
    "docs/en/volcano.md",
    "docs/en/host-network.md",
    "docs/en/heter.md",
];
const OF_JOBS: [&str; 3] = [
    "docs/en/paddlejob-overview.md",
    "docs/en/paddlejob-tutorials.md",
    "README.md",
];

const OF_ELASTIC_JOBS: &str = "docs/en/elastic.md";

/// The suite `nodes` of `testkit` types their commands on a real cluster, but for those that need
/// a registry, the internet or what the Go operator left: building the image and fetching it with
/// a password, the CSI driver, and the steps from the Go operator.
const OF_CLUSTERS: [&str; 2] = ["docs/en/installation.md", "docs/en/uninstall.md"];

fn guide(path: &str) -> Vec<Block> {
    blocks(&fs::read_to_string(repository().join(path)).unwrap())
}

/// The same in Chinese.
fn chinese(path: &str) -> Vec<Block> {
    let path = path.replace("docs/en/", "docs/zh_CN/");
    guide(&path.replace("README.md", "README-zh_CN.md"))
}

#[test]
fn both_languages_show_the_same() {
    for path in OF_CLUSTERS {
        assert_eq!(guide(path), chinese(path), "{path}");
    }
    let mut excuses = Vec::new();
    let guides = OF_DATA.iter().chain(&OF_JOBS).chain(&OF_MODES);
    for path in guides.chain([&OF_ELASTIC_JOBS]) {
        let english = guide(path);
        assert_eq!(english, chinese(path), "{path}");
        excuses.extend(english.into_iter().filter_map(|block| match block {
            Block::Excused(excuse) => Some(excuse),
            _ => None,
        }));
    }
    let known = [
        "for a cluster only",
        "it measures, for long, and needs a quiet machine",
        "it trains for minutes",
        "it trains for minutes",
        "they are these tests",
        "for a cluster only",
        "for a cluster only",
        "for a cluster only",
        // Volcano: it, the flag, a job, a queue.
        "for a cluster only",
        "for a cluster only",
        "for a cluster only",
        "for a cluster only",
        // A job on the network of two nodes.
        "for a cluster only",
        // The flag of elastic jobs.
        "for a cluster only",
    ];
    assert_eq!(excuses, known, "what is not run is to be little");
}

/// Whoever reads the guides and does as they say.
struct Reader {
    /// First, so that it ends while Redis still answers.
    _local: Local,
    shell: Shell,
    /// What the guides say, and what it is here.
    differs: Vec<(&'static str, String)>,
    servers: Vec<Ending>,
    watches: Vec<(Watch, String)>,
}

impl Reader {
    fn new() -> Reader {
        let images = repository().join("images.yaml");
        let local = Local::start(&["--nodes", "2", "--images", images.to_str().unwrap()]);
        let state = local.dir.display().to_string();
        Reader {
            shell: shell(&local),
            _local: local,
            // It is what is tried here.
            differs: vec![
                ("cargo build", "true".to_owned()),
                ("~/.local/state/paddle-operator", state),
            ],
            servers: Vec::new(),
            watches: Vec::new(),
        }
    }

    fn here(&self, text: &str) -> String {
        let change = |text: String, (says, is): &(&str, String)| text.replace(says, is);
        self.differs.iter().fold(text.to_owned(), change)
    }

    async fn read(&mut self, guide: &[Block]) {
        for block in guide {
            match block {
                Block::File { name, yaml } => {
                    fs::write(self.shell.dir.path().join(name), self.here(yaml)).unwrap();
                }
                Block::Object(yaml) => self.look_at(&self.here(yaml)),
                Block::Commands(commands) => {
                    for typed in commands {
                        self.follow(typed).await;
                    }
                }
                Block::Excused(_) => {}
            }
        }
        self.see_to_the_end().await;
    }

    async fn follow(&mut self, typed: &Typed) {
        let (command, shown) = (self.here(&typed.command), self.here(&typed.shown));
        if command.starts_with("target/debug/paddle-operator local") {
            // It runs already, with as many nodes as any guide wants.
        } else if command.starts_with("redis-server ") {
            self.servers.push(self.shell.serve(&command));
        } else if command.ends_with(" -w") {
            self.watches.push((self.shell.watch(&command), shown));
        } else if is_repeated(&command) && !shown.is_empty() {
            self.shell.shows(&command, &shown).await;
        } else {
            if command.starts_with("kubectl delete ") {
                self.see_to_the_end().await;
            }
            let printed = self.shell.tell(&command, &typed.inside);
            assert!(
                is_shown(&printed, &shown),
                "{command} prints\n{printed}and not\n{shown}"
            );
        }
    }

    /// A watch goes on in a terminal of its own, until all is over that it is to show.
    async fn see_to_the_end(&mut self) {
        for (watch, shown) in self.watches.drain(..) {
            watch.shows(&shown).await;
        }
    }

    /// An object of which a guide shows as much as matters: it must be possible.
    fn look_at(&self, yaml: &str) {
        let mut object: Value = serde_saphyr::from_str(yaml).unwrap();
        if object.get("apiVersion").is_some() {
            assert!(is_example(&object), "{yaml} is not in deploy/examples");
            return;
        }
        let kind = object["kind"].as_str().unwrap().to_owned();
        let (version, taken) = match kind.as_str() {
            "SampleSet" => ("v1alpha1", "condition=Accepted"),
            "SampleJob" => ("v1alpha1", "jsonpath={.status.phase}=Scheduled"),
            _ => ("v1", "condition=DataReady=false"),
        };
        object["apiVersion"] = json!(format!("batch.paddlepaddle.org/{version}"));
        object["metadata"] = json!({"name": "shown"});
        match kind.as_str() {
            "SampleSet" => object["spec"]["source"] = json!({"uri": "file:///data/pictures"}),
            "PaddleJob" => {
                let containers = json!([{"name": "paddle", "image": "nginx"}]);
                object["spec"]["worker"] =
                    json!({"replicas": 1, "template": {"spec": {"containers": containers}}});
            }
            _ => {}
        }
        let strictly = "kubectl create --validate=strict -f -";
        self.shell.tell(strictly, &object.to_string());
        let wait = format!("kubectl wait {kind}/shown --for='{taken}' --timeout=120s");
        self.shell.run(&wait);
        self.shell.run(&format!("kubectl delete {kind} shown"));
    }
}

/// What is typed until it shows what was waited for.
fn is_repeated(command: &str) -> bool {
    let looks = ["kubectl get ", "kubectl logs "];
    looks.iter().any(|start| command.starts_with(start)) && !command.contains(" -f ")
}

fn is_example(object: &Value) -> bool {
    let examples = fs::read_dir(repository().join("deploy/examples")).unwrap();
    let mut examples = examples.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    examples.any(|text| serde_saphyr::from_str::<Value>(&text).unwrap() == *object)
}

#[tokio::test]
async fn the_sample_cache_works_as_its_guides_say() {
    let mut reader = Reader::new();
    let address = "kubectl get node node-0 -o jsonpath={.status.addresses[0].address}";
    until("node-0 is there", async || {
        !reader.shell.run("kubectl get nodes -o name").is_empty()
    })
    .await;
    let ip = reader.shell.run(address).parse().unwrap();
    let files = tempfile::tempdir().unwrap();
    imagenet(&files.path().join("public"));
    fill(&files.path().join("pictures"), 232, 256 << 10);
    let s3 = S3::start(ip, &files.path().join("public"));
    // Not on a command line, where the other tests look for keys.
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "source", "namespace": "paddle-system"},
        "stringData": {"access-key": ACCESS_KEY.as_str(), "secret-key": SECRET_KEY.as_str()},
    });
    reader
        .shell
        .tell("kubectl create -f -", &secret.to_string());
    let redis = free_address(ip);
    let pictures = files.path().join("pictures");
    reader.differs.extend([
        (
            "file:///data/pictures",
            format!("file://{}", pictures.display()),
        ),
        ("192.168.7.227:6379", redis.to_string()),
        (
            "--bind 0.0.0.0",
            format!("--bind {ip} --port {}", redis.port()),
        ),
        (
            "/imagenet/demo\n",
            "/imagenet/demo\n    secretRef:\n      name: source\n".to_owned(),
        ),
        (
            "name: imagenet\n  syncOptions:",
            "name: source\n  syncOptions:".to_owned(),
        ),
        ("bos://paddleflow-public.hkg.bcebos.com/", s3.folder("")),
        ("4.2 GiB", "100 MiB".to_owned()),
    ]);
    for path in OF_DATA {
        reader.read(&guide(path)).await;
    }
}

#[tokio::test]
async fn jobs_train_as_their_guides_say() {
    let mut reader = Reader::new();
    for path in OF_JOBS {
        reader.read(&guide(path)).await;
    }
}

#[tokio::test]
async fn modes_work_as_their_guides_say() {
    let mut reader = Reader::new();
    for path in OF_MODES {
        reader.read(&guide(path)).await;
    }
}

#[tokio::test]
async fn elastic_jobs_train_as_their_guide_says() {
    let mut reader = Reader::new();
    let shared = tempfile::tempdir().unwrap();
    let yaml = fs::read_to_string(repository().join("deploy/elastic/resnet.yaml")).unwrap();
    // Less to wait for, and nothing is left on the machine.
    let sooner =
        "value: \"6\"\n            - name: PADDLE_ELASTIC_TIMEOUT\n              value: \"15\"";
    let place = shared.path().to_str().unwrap();
    let yaml = { yaml }
        .replace("value: \"20\"", sooner)
        .replace("/mnt/paddle/resnet-elastic", place);
    fs::write(reader.shell.dir.path().join("sooner.yaml"), yaml).unwrap();
    reader
        .differs
        .push(("deploy/elastic/resnet.yaml", "sooner.yaml".to_owned()));
    reader.read(&guide(OF_ELASTIC_JOBS)).await;
}
