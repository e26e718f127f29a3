// SPDX-License-Identifier: Apache-2.0
// `litespark anatomy`: each cause of training cost measured on this machine, beside the published figure.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>

#include "anatomy_chapters.h"
#include "backend_choice.h"
#include "commands.h"
#include "dist/launch_environment.h"
#include "io/file.h"
#include "launch.h"
#include "launch_dist.h"
#include "meter/cpu_model.h"
#include "plan_forecast.h"
#include "run_ranks.h"
#include "width_file.h"

namespace litespark::cli {
namespace {

/// Every chapter's name with what it is about, for help.
const std::string& chapter_help() {
  static const std::string kText = [] {
    std::string text = "What to measure; all without a name.";
    for (const AnatomyChapter& chapter : anatomy_chapters()) {
      const std::string name(chapter.name);
      text += "\n                      " + name + std::string(name.size() < 14 ? 14 - name.size() : 1, ' ') +
              std::string(chapter.purpose);
    }
    return text;
  }();
  return kText;
}

class AnatomyCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "anatomy",
            .purpose = "Measures each cause of training cost on this machine, beside the published figure.",
            .positionals = {{.name = "CHAPTER", .help = chapter_help(), .is_required = false, .is_repeated = true}},
            .example = "litespark anatomy attention recompute --json",
            .computes = true};
  }

  void visit(Fields& fields) override {
    fields.add({.path = "device",
                .value = &device_.kind,
                .help = "auto: cuda when this build and this machine have it, else cpu.",
                .choices = {"auto", "cpu", "cuda"}});
    fields.add({.path = "threads",
                .value = &device_.threads,
                .help = "CPU threads; 0: as many as this process may use.",
                .unit = "threads",
                .range = between(0, 4096)});
    fields.add({.path = "compute",
                .value = &compute_,
                .help = "What matmuls and attention compute with.",
                .choices = {"f32", "bf16"}});
    fields.add({.path = "seconds",
                .value = &seconds_,
                .help = "Of each single measurement, about; 0 runs each once.",
                .unit = "s",
                .range = between(0, 60)});
    fields.add({.path = "full",
                .value = &is_full_,
                .help = "Sizes of real models, as on a GPU: minutes a chapter on a CPU of few cores."});
    fields.add({.path = "ranks",
                .value = &ranks_,
                .help =
                    "For collectives alone: start this many processes, one a GPU, or over the CPU's cores, that talk "
                    "as training does. Under another launcher its ranks are taken.",
                .unit = "ranks",
                .range = between(1, 1024)});
    fields.add({.path = "width",
                .value = &width_.width,
                .help = "For width: the feed-forward width that is asked for; 0: 11008, on a CPU a quarter of it.",
                .range = between(0, 1 << 20)});
    fields.add({.path = "hidden-size",
                .value = &width_.hidden,
                .help = "For width: the model's hidden size; 0: 4096, on a CPU 1024.",
                .range = between(0, 1 << 20)});
    fields.add({.path = "rows",
                .value = &width_.rows,
                .help = "For width: tokens of a product; 0: 8192, on a CPU 512.",
                .unit = "tokens",
                .range = between(0, 1 << 24)});
    fields.add({.path = "width-file",
                .value = &width_file_,
                .help = "For width: where the table goes, which `litespark plan` reads; \"auto\": widths.toml in the "
                        "user's cache folder, \"none\": nowhere."});
    fields.add({.path = "folder",
                .value = &folder_,
                .help = "Where chapters write files for a moment; loader needs 10 MB on the disk that data lies on."});
    fields.add({.path = "hardware-file",
                .value = &hardware_file_,
                .help = "Write what kernels and collectives found to this TOML file, for `litespark plan --hardware`; "
                        "one that is there keeps what they do not measure."});
    fields.add({.path = "json", .value = &json_, .help = "Print one JSON array of chapters instead of text."});
  }

  ExitCode run(const CommandLine& line) override {
    const std::vector<const AnatomyChapter*> chapters = chosen_chapters(line.positionals);
    const auto place = dist::find_launch(dist::process_environment());
    if (ranks_ > 1 || place) require_collectives_alone(chapters);
    RunConfig config;
    config.device = device_;
    if (ranks_ > 1 && !place) return launch_ranks(static_cast<int>(ranks_), line.arguments, wants_cuda(config));
    config.cluster.gpus = place ? place->local_size.value_or(place->size) : 1;
    const std::shared_ptr<Backend> backend = make_backend(config, device_of(place));
    const std::unique_ptr<DistContext> others = place ? meet(*place, *backend) : nullptr;
    AnatomyRequest request{.backend = *backend,
                           .options = {.seconds = seconds_, .compute = compute_},
                           .is_large = is_full_ || backend->device() == Device::kCuda,
                           .folder = folder_,
                           .width = width_,
                           .width_file = width_file_ == "none"   ? std::filesystem::path{}
                                         : width_file_ == "auto" ? default_width_file()
                                                                 : std::filesystem::path(width_file_),
                           .worlds = worlds(others.get(), backend)};
    std::optional<Hardware> measured;
    if (!hardware_file_.empty()) {
      require_measured_hardware(chapters);
      measured = hardware_before(*backend);
      request.measured = &*measured;
    }
    const bool speaks = others == nullptr || others->communicator().rank() == 0;
    std::string text = json_ ? "[" : "device: " + backend->name() + "\n";
    for (const AnatomyChapter* chapter : chapters) {
      const anatomy::Chapter found = chapter->run(request);
      text += json_ ? chapter_json(found) : "\n" + chapter_text(found);
      if (json_ && chapter != chapters.back()) text += ",\n ";
      if (speaks) std::cout << text << std::flush;
      text.clear();
    }
    if (!speaks) return ExitCode::kDone;
    std::cout << (json_ ? "]\n" : "") << std::flush;
    if (measured) write_text_file(hardware_file_, to_toml(Fields::of(*measured)));
    return ExitCode::kDone;
  }

 private:
  /// All ranks are one world; a process alone has threads instead, where this build has a CPU backend for them.
  std::vector<anatomy::RankWorld> worlds(DistContext* others, const std::shared_ptr<Backend>& backend) const {
    if (others != nullptr) {
      Communicator& ranks = others->communicator();
      return {{.name = ranks.name(),
               .size = ranks.size(),
               .run = [&ranks](const auto& body) { body(ranks); },
               .make_backend = [backend] { return backend; }}};
    }
    if (backend->device() != Device::kCpu) return {};
    constexpr int kThreadRanks = 2;
    RunConfig shared;
    shared.device = device_;
    shared.cluster.gpus = kThreadRanks;
    return {
        anatomy::local_world(kThreadRanks, [shared]() -> std::shared_ptr<Backend> { return make_backend(shared); })};
  }

  static std::unique_ptr<DistContext> meet(const dist::LaunchPlace& place, const Backend& backend) {
    return open_dist({.place = place,
                      .facts = {{"command", "anatomy collectives"}, {"program", LITESPARK_VERSION}},
                      .on_cuda = backend.device() == Device::kCuda,
                      .device = device_of(place),
                      .compute_stream = compute_stream_of(backend)});
  }

  static void require_collectives_alone(const std::vector<const AnatomyChapter*>& chapters) {
    if (chapters.size() == 1 && chapters.front()->name == "collectives") return;
    throw ConfigError("command line", "several ranks measure collectives only",
                      std::to_string(chapters.size()) + " chapters", "litespark anatomy collectives --ranks=N");
  }

  /// What the file says already, or what is known of the machine without a measurement.
  Hardware hardware_before(const Backend& backend) const {
    if (std::filesystem::exists(hardware_file_)) return hardware_of(hardware_file_);
    const bool is_cpu = backend.device() == Device::kCpu;
    Hardware hardware = is_cpu ? Hardware{} : hardware_in_text(backend.name());
    hardware.name = backend.name();
    hardware.source = std::string("rates measured by litespark anatomy; power ") +
                      (is_cpu ? "as the meter estimates it" : "and price of the data sheet, where the part is known");
    if (is_cpu) {
      const CpuModel cpu = cpu_model_of_this_machine();
      hardware.idle_watts = cpu.idle_watts + cpu.watts_per_gib * cpu.memory_gib;
      hardware.watts = hardware.idle_watts + cpu.watts_per_busy_core * cpu.num_cores;
    }
    hardware.devices_a_node = std::max(1, num_gpus());
    const auto free_bytes = static_cast<double>(backend.free_bytes().value_or(0));
    hardware.memory_gib = std::round(10 * free_bytes / 0x1p30) / 10;
    return hardware;
  }

  void require_measured_hardware(const std::vector<const AnatomyChapter*>& chapters) const {
    const bool has_kernels = std::any_of(chapters.begin(), chapters.end(), [](const AnatomyChapter* chapter) {
      return chapter->name == "kernels" || chapter->name == "collectives";
    });
    if (!has_kernels) {
      throw ConfigError("command line", "--hardware-file is written by other chapters", "neither of them",
                        "kernels or collectives");
    }
    if (compute_ != DType::kBF16) {
      throw ConfigError("command line", "--hardware-file holds 16-bit rates", "--compute=f32", "--compute=bf16");
    }
  }

  DeviceSection device_;
  DType compute_ = DType::kBF16;
  double seconds_ = 0.2;
  int64_t ranks_ = 1;
  anatomy::WidthSizes width_ = {.rows = 0, .hidden = 0, .width = 0};
  std::string width_file_ = "auto";
  std::string folder_ = ".";
  std::string hardware_file_;
  bool is_full_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_anatomy_command() {
  return std::make_unique<AnatomyCommand>();
}

}  // namespace litespark::cli
