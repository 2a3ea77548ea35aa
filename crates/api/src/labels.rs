//! Labels, annotations and finalizers: the names by which the operator finds
//! its objects again, and those that the Go operators left behind.

/// Label of the Go operators and ours, on every pod of a job: the pod's name.
pub const RES_NAME: &str = "paddle-res-name";
/// Label of the Go operators and ours, on every pod of a job: the role. The
/// pods of all jobs are watched by this label, so that theirs are taken over.
pub const RES_TYPE: &str = "paddle-res-type";
/// Annotation of the Go operators and ours, on every pod of a job: the role.
pub const RESOURCE: &str = "paddle-resource";
/// Finalizer that the Go operator put on PaddleJobs; removed on sight.
pub const GO_FINALIZER: &str = "finalizers.paddlepaddle.org";

/// Label: the PaddleJob that a child belongs to.
pub const JOB_NAME: &str = "batch.paddlepaddle.org/job-name";
/// Label: the role of a pod (`ps`, `worker`, `heter`).
pub const ROLE: &str = "batch.paddlepaddle.org/role";
/// Label: the index of a pod within its role.
pub const RANK: &str = "batch.paddlepaddle.org/rank";
/// Annotation of a pod: the attempt that it was made for (`status.attempt`).
pub const ATTEMPT: &str = "batch.paddlepaddle.org/attempt";
/// Annotation of a pod: the ConfigMap key that its paddle container requires.
pub const KEY: &str = "batch.paddlepaddle.org/key";
/// Annotation of a pod: the ConfigMap key for which it was woken. Changing an
/// annotation makes the kubelet try a waiting container at once.
pub const WOKEN: &str = "batch.paddlepaddle.org/woken-for";

/// Annotation of the Go operators and ours, on a job with `intranet: Host`: the first of
/// the ports that are its own.
pub const HOST_PORT: &str = "host-port";
/// Annotation of a pod of an elastic job: with how many workers it knows to train.
pub const ELASTIC_RANGE: &str = "batch.paddlepaddle.org/elastic-range";
/// Annotation of a pod: its PodGroup.
pub const POD_GROUP: &str = "scheduling.k8s.io/group-name";
/// Annotation of a pod that Volcano schedules: its role.
pub const VOLCANO_TASK: &str = "volcano.sh/task-spec";
/// Annotation of a pod that Volcano schedules: its job.
pub const VOLCANO_JOB: &str = "volcano.sh/job-name";
/// Annotation of a pod that Volcano schedules: the version of its job, which is always 0.
pub const VOLCANO_VERSION: &str = "volcano.sh/job-version";
/// Annotation of a pod that Volcano schedules: its queue.
pub const VOLCANO_QUEUE: &str = "volcano.sh/queue-name";

/// Recommended label: the name of the application.
pub const APP_NAME: &str = "app.kubernetes.io/name";
/// Recommended label: the instance, here the job's name.
pub const APP_INSTANCE: &str = "app.kubernetes.io/instance";
/// Recommended label: the component, here the role.
pub const APP_COMPONENT: &str = "app.kubernetes.io/component";
/// Recommended label: the tool that made the object.
pub const APP_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`APP_MANAGED_BY`] on our children.
pub const OPERATOR: &str = "paddle-operator";

/// Finalizer of SampleSets: node labels, the volume and cached blocks need it.
pub const SET_FINALIZER: &str = "batch.paddlepaddle.org/sampleset";
/// What the finalizers of the Go operator begin with, on SampleSets; the name
/// of the set follows.
pub const GO_SET_FINALIZER: &str = "paddlepaddle.org/sampleset-";
/// What the finalizers of the Go operator begin with, on SampleJobs; removed on
/// sight.
pub const GO_SAMPLE_JOB_FINALIZER: &str = "paddlepaddle.org/samplejob-";
/// What the label of nodes begins with that hold a partition of a SampleSet;
/// namespace and name of the set follow, and its value is the runtime pod.
pub const NODE_PREFIX: &str = "paddlepaddle.org/juicefs-";
/// Label: the SampleSet that a child belongs to.
pub const SET_NAME: &str = "batch.paddlepaddle.org/sampleset";
/// Label of cluster-wide children: the uid of the SampleSet.
pub const SET_UID: &str = "batch.paddlepaddle.org/sampleset-uid";
/// Label: the SampleJob with a schedule that made this one.
pub const SCHEDULE_NAME: &str = "batch.paddlepaddle.org/schedule";
/// Annotation of a SampleJob that a schedule made: when it was due.
pub const SCHEDULED_AT: &str = "batch.paddlepaddle.org/scheduled-at";
/// Annotation of children: fingerprint of what was applied last, so that a
/// change of it is noticed.
pub const APPLIED: &str = "batch.paddlepaddle.org/applied";
/// Annotation of a runtime StatefulSet: the paths of the machine that the volume
/// is on, with `:` between them.
pub const LOCAL_PATHS: &str = "batch.paddlepaddle.org/local-paths";
