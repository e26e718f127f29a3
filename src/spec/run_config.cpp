// SPDX-License-Identifier: Apache-2.0
// The one list of run-file keys: name, help, unit, range. [model] stands in model_section.cpp.
#include "spec/run_config.h"

namespace litespark {

void DataSection::visit(Fields& fields) {
  fields.add({.path = "source",
              .value = &source,
              .help =
                  "synthetic: fresh random tokens from the seed; text: bytes of a file, vocabulary 256; shards: what "
                  "`litespark prepare` wrote.",
              .choices = {"synthetic", "text", "shards"}});
  fields.add({.path = "path", .value = &path, .help = "The text file or the folder of shards."});
  fields.add({.path = "eval_path", .value = &eval_path, .help = "Held-out data of the same kind, for evaluation."});
  fields.add({.path = "tokenizer",
              .value = &tokenizer,
              .help = "Folder with tokenizer.json: copied into checkpoints, used for samples. Unset: none."});
  fields.add({.path = "seq_len",
              .value = &seq_len,
              .help = "T, length of a training sequence.",
              .unit = "tokens",
              .range = between(1, 1 << 24)});
  fields.add({.path = "packing",
              .value = &packing,
              .help =
                  "documents: sequences hold whole and cut documents, attention stays within one; stream: attention "
                  "crosses from one document into the next.",
              .choices = {"documents", "stream"}});
  fields.add({.path = "workers",
              .value = &workers,
              .help = "Loader threads that prepare batches ahead of the step.",
              .unit = "threads",
              .range = between(1, 256)});
  fields.add({.path = "verify",
              .value = &verify,
              .help = "Read all shards before the first step and hold every byte against their manifest."});
}

namespace {

void add_sample_fields(TrainSection& section, Fields& fields) {
  fields.add({.path = "sample_every",
              .value = &section.sample_every,
              .help = "Steps between texts that the model writes into samples.jsonl; 0: none. Needs data.tokenizer.",
              .unit = "steps",
              .range = at_least(0)});
  fields.add({.path = "sample_prompt",
              .value = &section.sample_prompt,
              .help = "Text that samples continue. It never becomes a control token."});
  fields.add({.path = "sample_tokens",
              .value = &section.sample_tokens,
              .help = "Longest sample, prompt included; at most data.seq_len.",
              .unit = "tokens",
              .range = between(2, 1 << 24)});
  fields.add({.path = "sample_temperature",
              .value = &section.sample_temperature,
              .help = "Of samples; 0: always the most likely token. The same seed draws the same.",
              .range = between(0, 1e6)});
}

}  // namespace

void TrainSection::visit(Fields& fields) {
  fields.add({.path = "steps",
              .value = &steps,
              .help = "Optimizer steps of the whole run, those before a resume counted.",
              .unit = "steps",
              .range = at_least(1)});
  fields.add({.path = "micro_batch",
              .value = &micro_batch,
              .help =
                  "B, sequences that one device runs at a time. 0: train.accumulation counts the sequences of a step, "
                  "and the memory plan cuts them into the micro-batches that fit and are fastest by prediction.",
              .unit = "sequences",
              .range = between(0, 1 << 20)});
  fields.add({.path = "accumulation",
              .value = &accumulation,
              .help = "Micro-batches whose gradients are summed into one step.",
              .range = between(1, 1 << 20)});
  fields.add({.path = "eval_every",
              .value = &eval_every,
              .help = "Steps between evaluations; 0: none.",
              .unit = "steps",
              .range = at_least(0)});
  fields.add({.path = "eval_batches",
              .value = &eval_batches,
              .help = "Most micro-batches of one evaluation; 0, or more than there are: all held-out data.",
              .range = at_least(0)});
  fields.add({.path = "log_every",
              .value = &log_every,
              .help = "Steps between printed lines; metrics.jsonl holds every step.",
              .unit = "steps",
              .range = at_least(1)});
  fields.add({.path = "nan_limit",
              .value = &nan_limit,
              .help = "A step with NaN or infinity is skipped; the run stops (exit 6) after this many in a row.",
              .unit = "steps",
              .range = at_least(1)});
  fields.add({.path = "spike_factor",
              .value = &spike_factor,
              .help = "Skips a step whose gradient norm passes this multiple of its recent median; 0: never.",
              .range = between(0, 1e9)});
  fields.add({.path = "z_loss",
              .value = &z_loss,
              .help = "Weight of log(sum(exp(logits)))^2 in the loss, which keeps logits small; 0: off.",
              .range = between(0, 1)});
  add_sample_fields(*this, fields);
  fields.add({.path = "head_chunk_rows",
              .value = &head_chunk_rows,
              .help = "Rows of logits that exist at a time; 0: chosen by the memory plan.",
              .unit = "tokens",
              .range = at_least(0)});
}

void OptimSection::visit(Fields& fields) {
  fields.add({.path = "name", .value = &name, .help = "The optimizer.", .choices = {"adamw"}});
  fields.add({.path = "lr", .value = &lr, .help = "Peak learning rate.", .range = between(0, 10)});
  fields.add({.path = "betas",
              .value = &betas,
              .help = "Decay of the first and second moment.",
              .range = from_to_below(0, 1)});
  fields.add(
      {.path = "eps", .value = &eps, .help = "Added to the root of the second moment.", .range = between(1e-30, 1000)});
  fields.add({.path = "weight_decay",
              .value = &weight_decay,
              .help = "Decoupled decay, times the learning rate; on tensors of two or more dimensions only.",
              .range = between(0, 10)});
  fields.add({.path = "clip_norm",
              .value = &clip_norm,
              .help = "Gradients of a larger global norm are scaled down to it; 0: never.",
              .range = zero_or_between(1e-12, 1e30)});
  fields.add({.path = "moments",
              .value = &moments,
              .help = "Both moments of AdamW; bf16: written with stochastic rounding, computed in fp32.",
              .choices = {"fp32", "bf16"}});
}

void ScheduleSection::visit(Fields& fields) {
  fields.add({.path = "name",
              .value = &name,
              .help = "Shape of the learning rate after warm-up; wsd holds, then decays as 1 - sqrt at the end.",
              .choices = {"cosine", "linear", "wsd", "constant", "inverse_sqrt"}});
  fields.add({.path = "warmup",
              .value = &warmup,
              .help = "Steps of linear growth from 0 to optim.lr.",
              .unit = "steps",
              .range = at_least(0)});
  fields.add({.path = "final_fraction",
              .value = &final_fraction,
              .help = "Last learning rate as a share of optim.lr (cosine, linear, wsd).",
              .range = between(0, 1)});
  fields.add({.path = "decay_fraction",
              .value = &decay_fraction,
              .help = "Share of train.steps in which wsd decays.",
              .range = between(0, 1)});
}

void PrecisionSection::visit(Fields& fields) {
  fields.add({.path = "compute",
              .value = &compute,
              .help = "Inputs of matmuls and attention; sums are always fp32.",
              .choices = {"fp32", "bf16"}});
  fields.add({.path = "residual",
              .value = &residual,
              .help = "The stream between blocks; compute: as precision.compute.",
              .choices = {"compute", "fp32", "bf16"}});
  fields.add(
      {.path = "master",
       .value = &master,
       .help = "The optimizer's copy of the weights. fp32; bf16-remainder: the bf16 weight and 16 more bits hold the "
               "same fp32 value in half the room, with bit-equal results; bf16: no copy, the bf16 weights are "
               "updated with stochastic rounding. Norms and biases are always fp32.",
       .choices = {"fp32", "bf16-remainder", "bf16"}});
  fields.add({.path = "matmul",
              .value = &matmul,
              .help =
                  "Operands of the blocks' linear layers in training. compute: as precision.compute; fp8: 8-bit floats "
                  "scaled by each tensor's own largest magnitude, forward and backward, on a GPU that multiplies them; "
                  "fp8-emulated: the same numbers, also where they are only emulated. Attention, norms, head and sums "
                  "stay as they are.",
              .choices = {"compute", "fp8", "fp8-emulated"}});
  fields.add({.path = "fp8_gradient",
              .value = &fp8_gradient,
              .help = "8-bit format of gradients: e4m3 has more precision, e5m2 more range.",
              .choices = {"e4m3", "e5m2"}});
  fields.add({.path = "fp8_scaling",
              .value = &fp8_scaling,
              .help = "What shares a scale: the whole tensor, or each row of each copy, which is finer and slower.",
              .choices = {"tensor", "row"}});
  fields.add({.path = "attention",
              .value = &attention,
              .help = "Operands of attention's forward in training. compute: as precision.compute; fp8: queries, keys, "
                      "values and probabilities in 8-bit floats on a Hopper GPU, heads of 128, the backward as it is; "
                      "fp8-emulated: also where 8 bits are only emulated.",
              .choices = {"compute", "fp8", "fp8-emulated"}});
  fields.add({.path = "rope",
              .value = &rope,
              .help =
                  "Cosines and sines of the rotary angles, which are made in double; a checkpoint's config.json says "
                  "so where they are not fp32.",
              .choices = {"fp32", "bf16", "fp16"}});
  fields.add({.path = "gradient",
              .value = &gradient,
              .help =
                  "Weight gradients. bf16: those of the blocks' matrices, each summed in fp32 and rounded once, which "
                  "needs train.accumulation = 1; embedding, head, norms and biases stay fp32.",
              .choices = {"fp32", "bf16"}});
}

void MemorySection::visit(Fields& fields) {
  fields.add(
      {.path = "budget",
       .value = &budget,
       .help = "Most memory the plan may use: \"auto\" (what the device has free) or a size such as \"24GiB\"."});
  fields.add({.path = "recompute",
              .value = &recompute,
              .help = "What backward computes again instead of keeping; results stay bit-equal.",
              .choices = {"none", "norm-act", "attention", "keep-attention", "block", "every-k"}});
  fields.add({.path = "recompute_every",
              .value = &recompute_every,
              .help = "k of every-k: blocks between kept residual streams.",
              .unit = "blocks",
              .range = at_least(1)});
  fields.add(
      {.path = "offload",
       .value = &offload,
       .help = "activations: what memory.recompute = \"block\" keeps of each block waits for backward in pinned host "
               "memory; GPUs only, results stay bit-equal.",
       .choices = {"none", "activations"}});
  fields.add({.path = "packed_copies",
              .value = &packed_copies,
              .help =
                  "CPU: copies of weights in the layout of its matmuls. resident: made once a step and kept; on-use: "
                  "each made in front of its product and dropped behind it; auto: on-use where a step is one "
                  "micro-batch and nothing is sampled. Results stay bit-equal.",
              .choices = {"auto", "resident", "on-use"}});
}

void DeviceSection::visit(Fields& fields) {
  fields.add({.path = "kind",
              .value = &kind,
              .help = "auto: cuda when this build and this machine have it, else cpu.",
              .choices = {"auto", "cpu", "cuda"}});
  fields.add({.path = "threads",
              .value = &threads,
              .help = "CPU threads; 0: what affinity mask and cgroup quota allow.",
              .unit = "threads",
              .range = between(0, 4096)});
  fields.add({.path = "isa",
              .value = &isa,
              .help = "Highest instruction set the CPU kernels may use.",
              .choices = {"auto", "generic", "avx2", "avx512", "avx512bf16", "amx"}});
  fields.add(
      {.path = "matmul_search",
       .value = &matmul_search,
       .help =
           "CUDA: what is timed before training starts. quick: cuBLASLt's best proposals for a shape; thorough: all of "
           "them and variations of the fastest, the last few for as long as it takes the power limit to set in.",
       .choices = {"quick", "thorough"}});
  fields.add({.path = "tuning_file",
              .value = &tuning_file,
              .help =
                  "CUDA: file that keeps what was timed for the next run on such a machine. auto: tuning.json in the "
                  "user's cache folder; none: time again."});
  fields.add({.path = "debug_sync",
              .value = &debug_sync,
              .help = "Waits after every op, so that a device error names the very one; slow."});
  fields.add({.path = "verify_every",
              .value = &verify_every,
              .help =
                  "Steps between checks for silent errors: one micro-batch run twice must give equal bits (exit 8 if "
                  "not). Costs one micro-batch each; needs deterministic = true; 0: never.",
              .unit = "steps",
              .range = at_least(0)});
}

void CheckpointSection::visit(Fields& fields) {
  fields.add({.path = "every",
              .value = &every,
              .help = "Steps between checkpoints; 0: only at the end and when a signal asks.",
              .unit = "steps",
              .range = at_least(0)});
  fields.add({.path = "keep_last",
              .value = &keep_last,
              .help = "Newest checkpoints that are kept.",
              .unit = "checkpoints",
              .range = at_least(1)});
  fields.add({.path = "keep_every",
              .value = &keep_every,
              .help = "Checkpoints at multiples of this many steps are kept for good; 0: none.",
              .unit = "steps",
              .range = at_least(0)});
  fields.add({.path = "at_end",
              .value = &at_end,
              .help = "Save after the last step; off for runs that only measure. A stop by a signal always saves."});
  fields.add({.path = "async", .value = &async, .help = "Write checkpoints while the next steps run."});
  fields.add({.path = "signal",
              .value = &signal,
              .help = "A signal besides SIGTERM and SIGINT that saves and stops (exit 5).",
              .choices = {"none", "SIGUSR1", "SIGUSR2", "SIGHUP"}});
  fields.add(
      {.path = "resume",
       .value = &resume,
       .help = "auto: from the newest complete checkpoint of the run folder, if any; never; or a checkpoint's path."});
}

void MeterSection::visit(Fields& fields) {
  fields.add({.path = "grid", .value = &grid, .help = "Electricity grid, as a code of the carbon table."});
  fields.add({.path = "grid_intensity",
              .value = &grid_intensity,
              .help = "Carbon intensity, instead of the table's.",
              .unit = "g CO2e per kWh",
              .range = between(0, 5000)});
  fields.add({.path = "pue",
              .value = &pue,
              .help = "Power usage effectiveness: the building's energy over the machines'; 1 when unknown.",
              .range = between(1, 10)});
  fields.add({.path = "price_per_kwh",
              .value = &price_per_kwh,
              .help = "Price of electricity. Unset: money is unavailable.",
              .unit = "your currency per kWh",
              .range = between(0, 1e9)});
  fields.add({.path = "cpu_idle_watts",
              .value = &cpu_idle_watts,
              .help = "CPU power at rest, for the estimate where no counter exists. Unset: the table's.",
              .unit = "W",
              .range = between(0, 1e6)});
  fields.add({.path = "cpu_watts_per_core",
              .value = &cpu_watts_per_core,
              .help = "Power of a busy core above rest, for the same estimate. Unset: the table's.",
              .unit = "W",
              .range = between(0, 1e6)});
  fields.add({.path = "watts_per_gib",
              .value = &watts_per_gib,
              .help = "Power of memory, for the same estimate. Unset: the table's.",
              .unit = "W per GiB",
              .range = between(0, 1e6)});
  fields.add({.path = "peak_tflops",
              .value = &peak_tflops,
              .help = "Dense peak that MFU is measured against. Unset: measured on a CPU, the data sheet's on a GPU.",
              .unit = "TFLOP/s",
              .range = between(1e-6, 1e9)});
  fields.add({.path = "timeline_every",
              .value = &timeline_every,
              .help =
                  "One step in so many is observed op by op, for time by scope; fewer when that would cost 1 % of the "
                  "run. 0: none.",
              .unit = "steps",
              .range = at_least(0)});
}

void ClusterSection::visit(Fields& fields) {
  const FieldRange ranks = between(1, 1 << 20);
  fields.add({.path = "gpus", .value = &gpus, .help = "Devices of the run, all nodes together.", .range = ranks});
  fields.add({.path = "nodes", .value = &nodes, .help = "Machines; divides gpus.", .range = ranks});
  fields.add({.path = "dp",
              .value = &dp,
              .help = "Data-parallel ranks; 0: what the other axes leave.",
              .range = between(0, 1 << 20)});
  fields.add({.path = "tp", .value = &tp, .help = "Tensor-parallel ranks.", .range = ranks});
  fields.add({.path = "pp", .value = &pp, .help = "Pipeline stages, which hold different layers.", .range = ranks});
  fields.add({.path = "pp_layers",
              .value = &pp_layers,
              .help =
                  "Layers of each pipeline stage, the first stage's first; with vpp above 1 of each of the pp x vpp "
                  "ranges, in the model's order. Empty: so that the slowest stage has as little work as can be.",
              .unit = "layers",
              .range = at_least(1)});
  fields.add({.path = "vpp",
              .value = &vpp,
              .help = "Ranges of layers that each pipeline stage holds; above 1 stages are interleaved: they wait less "
                      "and send more, and train.accumulation is a multiple of pp.",
              .range = between(1, 1024)});
  fields.add({.path = "cp",
              .value = &cp,
              .help = "Context-parallel ranks, which share the tokens of a micro-batch.",
              .range = ranks});
  fields.add({.path = "ep", .value = &ep, .help = "Expert-parallel ranks, within dp.", .range = ranks});
  fields.add({.path = "hardware", .value = &hardware, .help = "Hardware that `litespark plan` computes for."});
}

namespace {

void visit_gradients(DistributionSection& section, Fields& fields) {
  fields.add({.path = "sync_small_every",
              .value = &section.sync_small_every,
              .help =
                  "Norms and biases: 1, their gradients are summed over ranks in every step, exactly. More: each "
                  "data-parallel rank updates copies of its own, which become their mean every so many steps: "
                  "fewer messages, other mathematics. Evaluations, samples and saves must fall on such steps, and a "
                  "stop waits for one.",
              .unit = "steps",
              .range = between(1, 1000)});
  fields.add({.path = "compression",
              .value = &section.compression,
              .help =
                  "How data-parallel ranks tell each other gradients: none, in f32; bf16 or fp16, rounded to 16 bits "
                  "and added in f32, half the bytes of a reduction. fp16 rounds 8 times finer and shares a power of "
                  "two among 4,096 elements. Both change results.",
              .choices = {"none", "bf16", "fp16"}});
  fields.add({.path = "error_feedback",
              .value = &section.error_feedback,
              .help =
                  "With compression: what rounding takes from a rank's gradients is added to those of its next step, 4 "
                  "bytes a parameter on every rank. false: it is lost."});
}

void visit_ways_between_hosts(DistributionSection& section, Fields& fields) {
  fields.add({.path = "reduction",
              .value = &section.reduction,
              .help =
                  "What goes between hosts: flat, each rank's pieces to all ranks; hierarchical, sums inside each host "
                  "first and only those between hosts, where ranks stand evenly on several. auto: hierarchical "
                  "over Gloo, flat over NCCL, which knows the hosts itself.",
              .choices = {"auto", "flat", "hierarchical"}});
  fields.add({.path = "tiers",
              .value = &section.tiers,
              .help =
                  "How calls between hosts travel over Gloo, by size, always with the same bits: sharded, from rank to "
                  "rank; article, multicast below multicast_below, one-sided below one_sided_below, sharded above; "
                  "auto, whichever is faster when ranks meet, which is printed.",
              .choices = {"auto", "article", "sharded"}});
  fields.add({.path = "multicast_below",
              .value = &section.multicast_below,
              .help = "With tiers = \"article\": smaller calls are multicast where all ranks get the same.",
              .unit = "bytes",
              .range = between(1, int64_t{1} << 30)});
  fields.add({.path = "one_sided_below",
              .value = &section.one_sided_below,
              .help = "With tiers = \"article\": smaller calls, from multicast_below on, are written into the other "
                      "ranks' memory, where there is a way to.",
              .unit = "bytes",
              .range = between(1, int64_t{1} << 40)});
}

}  // namespace

void DistributionSection::visit(Fields& fields) {
  fields.add({.path = "zero",
              .value = &zero,
              .help = "What data-parallel ranks share: 1, the optimizer's state; 2, gradients too: reduced in every "
                      "micro-batch, and each rank keeps its part of the sum.",
              .range = between(1, 2)});
  fields.add({.path = "tensor_stretches",
              .value = &tensor_stretches,
              .help = "In how many stretches tensor-parallel ranks exchange a micro-batch's rows, beside the products "
                      "that read or make them; whole where a rank's rows do not divide so.",
              .range = between(1, 4)});
  visit_gradients(*this, fields);
  fields.add({.path = "verify_every",
              .value = &verify_every,
              .help = "In the first step, and in one step every so many, data-parallel ranks compare checksums of the "
                      "weights that they read and of what they decide from; a difference ends the run (exit 8) and "
                      "names the rank. 0: never.",
              .unit = "steps",
              .range = at_least(0)});
  fields.add({.path = "graphs",
              .value = &graphs,
              .help =
                  "Record the phases in which GPUs meet as CUDA graphs, like all others. A step that is observed op "
                  "by op is no graph, and all ranks must do the same: needs meter.timeline_every = 0."});
  visit_ways_between_hosts(*this, fields);
  fields.add({.path = "timeout_seconds",
              .value = &timeout_seconds,
              .help = "How long a rank waits for the others in one call before it ends the run (exit 7).",
              .unit = "s",
              .range = between(1, 1 << 20)});
  fields.add({.path = "record_calls",
              .value = &record_calls,
              .help = "Each rank keeps so many of its last calls, with when they were issued, made and waited for, and "
                      "leaves them in calls/rank-R.jsonl when the run ends or fails. Not over NCCL.",
              .unit = "calls",
              .range = between(0, 1 << 16)});
  fields.add({.path = "at_one_rank",
              .value = &at_one_rank,
              .help = "A single rank takes the way of several: it meets itself, reduces its gradients and gathers its "
                      "weights, with equal results. Shows what that costs beside the links."});
  fields.add(
      {.path = "elastic",
       .value = &elastic,
       .help = "With ranks that --gpus starts: when one is lost, go on from the newest checkpoint with those that are "
               "left, as many of them as share out a step's micro-batches evenly. Needs train.micro_batch."});
  fields.add({.path = "max_restarts",
              .value = &max_restarts,
              .help = "With elastic: how often in a row the ranks are started again without a newer checkpoint.",
              .unit = "starts",
              .range = between(0, 1000)});
  fields.add({.path = "secret_file",
              .value = &secret_file,
              .help =
                  "A file, readable by its owner alone, with the secret by which ranks know each other. Unset: what "
                  "--gpus hands down; other launchers need one."});
}

void RunConfig::visit(Fields& fields) {
  fields.add({.path = "task",
              .value = &task,
              .help = "What is trained.",
              .choices = {"pretrain", "sft", "reward", "ppo", "dpo", "grpo"}});
  fields.add({.path = "seed",
              .value = &seed,
              .help = "Seed of weights, data order and every random draw.",
              .range = at_least(0)});
  fields.add({.path = "deterministic",
              .value = &deterministic,
              .help = "Same seed and layout give bit-equal runs and a bit-equal resume."});
  fields.add({.path = "out", .value = &out, .help = "Run folder. Unset: runs/ and the run file's name."});
  fields.section("model", "The model: a folder, or a shape in config.json's keys.", model);
  fields.section("data", "What it learns from.", data);
  fields.section("train", "The training loop.", train);
  fields.section("optim", "The optimizer.", optim);
  fields.section("schedule", "The learning rate over the run.", schedule);
  fields.section("precision", "Number formats.", precision);
  fields.section("memory", "What is kept, computed again or moved away.", memory);
  fields.section("device", "Where it runs.", device);
  fields.section("checkpoint", "What is saved and when.", checkpoint);
  fields.section("meter", "Energy, carbon and money.", meter);
  fields.section("cost", "What `litespark plan` counts beside devices and electricity.", cost);
  fields.section("cluster", "Devices and how the work is split over them.", cluster);
  fields.section("distribution", "How ranks work together.", distribution);
}

}  // namespace litespark
