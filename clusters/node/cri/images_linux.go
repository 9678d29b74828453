// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"lva.io/operators/clusters/images/named"
	"lva.io/operators/clusters/node/rootfs"
)

// imageError adds to the error of an unavailable image what the user can do.
func imageError(reference string, err error) error {
	if errors.Is(err, named.ErrUnknown) {
		return status.Errorf(codes.NotFound, "image %q is unknown, and this cluster has no registry to pull it from: "+
			"build it with `make docker-build IMG=%s` in a lab's folder, or use one of those that `cluster images` lists",
			reference, reference)
	}
	return status.Error(codes.InvalidArgument, err.Error())
}

func imageOf(image rootfs.Image) *runtimeapi.Image {
	described := &runtimeapi.Image{
		Id:       image.Configuration.Digest,
		RepoTags: []string{image.Reference},
		Spec:     &runtimeapi.ImageSpec{Image: image.Configuration.Digest},
	}
	for _, layer := range image.Layers {
		described.Size += uint64(layer.Size)
	}
	user, _, _ := strings.Cut(image.User, ":")
	if id, err := strconv.ParseInt(user, 10, 64); err == nil {
		described.Uid = &runtimeapi.Int64Value{Value: id}
	} else if user == "" {
		described.Uid = &runtimeapi.Int64Value{Value: 0}
	} else {
		described.Username = user
	}
	return described
}

// ImageStatus returns the status of an image. If the store does not have it, the answer is empty, without an error.
func (s *Server) ImageStatus(
	_ context.Context, r *runtimeapi.ImageStatusRequest,
) (*runtimeapi.ImageStatusResponse, error) {
	image, err := s.Files.Image(r.GetImage().GetImage())
	if errors.Is(err, named.ErrUnknown) {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	if err != nil {
		return nil, imageError(r.GetImage().GetImage(), err)
	}
	return &runtimeapi.ImageStatusResponse{Image: imageOf(image)}, nil
}

// PullImage makes sure that an image can be run. It builds and unpacks the image if necessary.
func (s *Server) PullImage(ctx context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	reference := r.GetImage().GetImage()
	image, err := s.Files.Image(reference)
	if errors.Is(err, named.ErrUnknown) && s.Build != nil {
		if err := s.Build(ctx, r.GetSandboxConfig().GetMetadata(), reference); err != nil {
			return nil, imageError(reference, err)
		}
		image, err = s.Files.Image(reference)
	}
	if err != nil {
		return nil, imageError(reference, err)
	}
	if err := s.Files.Unpack(image); err != nil {
		return nil, err
	}
	return &runtimeapi.PullImageResponse{ImageRef: image.Configuration.Digest}, nil
}

// ListImages lists all images that have names.
func (s *Server) ListImages(
	_ context.Context, r *runtimeapi.ListImagesRequest,
) (*runtimeapi.ListImagesResponse, error) {
	all, err := s.Files.List()
	if err != nil {
		return nil, err
	}
	response := &runtimeapi.ListImagesResponse{}
	seen := map[string]*runtimeapi.Image{}
	for _, image := range all {
		if wanted := r.GetFilter().GetImage().GetImage(); wanted != "" &&
			wanted != image.Reference && wanted != image.Configuration.Digest {
			continue
		}
		if same := seen[image.Configuration.Digest]; same != nil {
			same.RepoTags = append(same.RepoTags, image.Reference)
			continue
		}
		described := imageOf(image)
		described.Pinned = true // the kubelet must not remove images: the store is not the node's
		seen[described.Id] = described
		response.Images = append(response.Images, described)
	}
	return response, nil
}

// RemoveImage does nothing, because the store belongs to the checkout, and other clusters use it.
func (s *Server) RemoveImage(context.Context, *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	return &runtimeapi.RemoveImageResponse{}, nil
}

// ImageFsInfo reports the usage of the file system that the kubelet has to watch, which is the one of the containers.
// The layers are in the image store, and the node sees only a part of that file system.
func (s *Server) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	dir := s.Files.Containers
	used := &runtimeapi.FilesystemUsage{
		Timestamp: time.Now().UnixNano(),
		FsId:      &runtimeapi.FilesystemIdentifier{Mountpoint: dir},
	}
	var system unix.Statfs_t
	if unix.Statfs(dir, &system) == nil {
		used.UsedBytes = &runtimeapi.UInt64Value{Value: (system.Blocks - system.Bfree) * uint64(system.Bsize)}
		used.InodesUsed = &runtimeapi.UInt64Value{Value: system.Files - system.Ffree}
	}
	all := []*runtimeapi.FilesystemUsage{used}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: all, ContainerFilesystems: all}, nil
}
