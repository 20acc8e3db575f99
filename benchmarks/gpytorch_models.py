"""GPyTorch's exact and sparse Gaussian processes of class labels, as its tutorials write them (`class_model_speed`).

One output for each class, independent, each with its own RBF kernel.
"""

import gpytorch
import numpy as np
import torch
from class_model_speed import BATCH, BLOCK, POINTS, ROUNDS, STEPS, _indicators
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from gpytorch.likelihoods import MultitaskGaussianLikelihood
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def _modules(n_classes: int) -> tuple[gpytorch.Module, gpytorch.Module]:
    batch = torch.Size([n_classes])
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(batch_shape=batch), batch_shape=batch)
    return gpytorch.means.ConstantMean(batch_shape=batch), kernel


class _ExactModel(gpytorch.models.ExactGP):
    def __init__(self, X: torch.Tensor, Y: torch.Tensor, likelihood: MultitaskGaussianLikelihood) -> None:
        super().__init__(X, Y, likelihood)
        self.mean_module, self.covar_module = _modules(Y.shape[1])

    def forward(self, x: torch.Tensor) -> MultitaskMultivariateNormal:
        own = MultivariateNormal(self.mean_module(x), self.covar_module(x))
        return MultitaskMultivariateNormal.from_batch_mvn(own)


class _SparseModel(gpytorch.models.ApproximateGP):
    def __init__(self, points: torch.Tensor, n_classes: int) -> None:
        batch = torch.Size([n_classes])
        distribution = gpytorch.variational.CholeskyVariationalDistribution(points.shape[-2], batch_shape=batch)
        strategy = gpytorch.variational.VariationalStrategy(self, points.repeat(n_classes, 1, 1), distribution)
        super().__init__(gpytorch.variational.IndependentMultitaskVariationalStrategy(strategy, num_tasks=n_classes))
        self.mean_module, self.covar_module = _modules(n_classes)

    def forward(self, x: torch.Tensor) -> MultivariateNormal:
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


class _Scored:
    """Means of the classes, block after block; variances are computed with them, as MDD-KM needs them."""

    model: gpytorch.Module
    likelihood: MultitaskGaussianLikelihood

    def score(self, Z: np.ndarray) -> np.ndarray:
        self.model.eval()
        self.likelihood.eval()
        found = []
        with torch.no_grad(), gpytorch.settings.fast_pred_var():
            for block in torch.from_numpy(Z).float().split(BLOCK):
                answer = self.model(block)
                answer.variance  # noqa: B018  (computed when it is asked for)
                found.append(answer.mean)
        return torch.cat(found).numpy()


class Exact(_Scored):
    """`gpytorch.models.ExactGP`, Adam with rate .1."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        inputs, targets = torch.from_numpy(X).float(), torch.from_numpy(_indicators(y)).float()
        self.likelihood = MultitaskGaussianLikelihood(num_tasks=targets.shape[1])
        self.model = _ExactModel(inputs, targets, self.likelihood)
        optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)
        evidence = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self.model)
        for _ in range(STEPS):
            optimizer.zero_grad()
            (-evidence(self.model(inputs), targets)).backward()
            optimizer.step()


class Sparse(_Scored):
    """Variational inducing points, which start at some of the frames; Adam with rate .01."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        inputs, targets = torch.from_numpy(X).float(), torch.from_numpy(_indicators(y)).float()
        points = inputs[:: max(1, len(inputs) // POINTS)][:POINTS]
        self.likelihood = MultitaskGaussianLikelihood(num_tasks=targets.shape[1])
        self.model = _SparseModel(points, targets.shape[1])
        parameters = [*self.model.parameters(), *self.likelihood.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=0.01)
        evidence = gpytorch.mlls.VariationalELBO(self.likelihood, self.model, num_data=len(inputs))
        for _ in range(ROUNDS):
            for some, wanted in DataLoader(TensorDataset(inputs, targets), batch_size=BATCH, shuffle=True):
                optimizer.zero_grad()
                (-evidence(self.model(some), wanted)).backward()
                optimizer.step()
